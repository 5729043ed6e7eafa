/** The dashboard on a phone. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Page } from 'playwright-core'
import { logIn } from './browser.ts'
import { type DashboardFixture, phoneSize, withinMs } from './fixture.ts'

/** A third of the screen; the rest is for what the view shows. */
const maxHead = phoneSize.height / 3
const minText = 300

const bottomOf = (page: Page, selector: string): Promise<number> =>
  page.evaluate(`document.querySelector('${selector}').getBoundingClientRect().bottom`) as Promise<number>

export function phoneSuite(dashboard: DashboardFixture): void {
  it('leads on a phone from the menu over the list to everything about one sandbox', async () => {
    const { warren, scene, browser } = dashboard
    const context = await browser.newContext({
      viewport: phoneSize,
      reducedMotion: 'reduce',
      isMobile: true,
      hasTouch: true,
    })
    const page = await context.newPage()
    page.setDefaultTimeout(withinMs)
    await logIn(page, warren.url, warren.apiKey)
    const menu = page.getByRole('navigation', { name: 'Views' })
    assert.equal(await menu.isVisible(), false)
    await page.getByRole('button', { name: 'Menu' }).tap()
    await menu.getByRole('link', { name: 'API keys' }).tap()
    await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor()
    await menu.waitFor({ state: 'hidden' })
    await page.getByRole('button', { name: 'Menu' }).tap()
    await menu.waitFor()
    await page.keyboard.press('Escape')
    await menu.waitFor({ state: 'hidden' })
    await page.getByRole('button', { name: 'Menu' }).tap()
    await menu.getByRole('link', { name: 'Sandboxes' }).tap()
    await page.getByRole('link', { name: scene.busy.sandboxId }).tap()
    await page.getByRole('button', { name: 'Pause' }).waitFor()
    assert.ok((await bottomOf(page, '.tabs')) < maxHead, 'the head of a sandbox takes a third of the screen')
    await page.getByRole('link', { name: 'Logs' }).tap()
    await page.getByText('listening on 8000').waitFor()
    await page.getByRole('link', { name: 'Files' }).tap()
    await page.getByRole('button', { name: 'server.py' }).first().tap()
    assert.match(await page.getByLabel('Content of server.py').inputValue(), /serve_forever/)
    // What a mouse shows by hovering.
    const shown = "getComputedStyle(document.querySelector('.entries .on-hover')).opacity"
    assert.equal(await page.evaluate(shown), '1')
    assert.deepEqual(await tooSmall(page), [])
    await page.getByRole('button', { name: 'Menu' }).tap()
    await menu.getByRole('link', { name: 'Templates' }).tap()
    const about = page.getByRole('region', { name: 'Built-in templates' }).locator('td').first()
    await about.waitFor()
    const { width } = (await about.boundingBox())!
    assert.ok(width > minText, `what a template is has ${width} pixels`)
    await context.close()
  })
}

/** What a finger would miss: the least size of WCAG 2.2 is 24 pixels. */
const tooSmall = (page: Page): Promise<string[]> =>
  page.evaluate(`[...document.querySelectorAll('main button, main .tabs a, .topbar button')]
    .filter((one) => one.checkVisibility())
    .filter((one) => Math.min(one.offsetWidth, one.offsetHeight) < 24)
    .map((one) => one.outerHTML.slice(0, 120))`) as Promise<string[]>
