/** Every view of the dashboard as a screen reader, a phone and each theme show it. */
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import type { Page } from 'playwright-core'
import { eventually } from '../support/eventually.ts'
import { repoFolder } from '../support/warren.ts'
import { axeSource, findingsOf } from './axe.ts'
import { goTo, logIn } from './browser.ts'
import { type DashboardFixture, enterName, phoneSize, withinMs } from './fixture.ts'

const sizes = { desktop: { width: 1280, height: 720 }, phone: phoneSize }
/** A theme changes colours and nothing else, so only the first one is looked at for everything. */
const themes = { light: undefined, dark: ['color-contrast'] } as const

type View = {
  path: string
  /** Opens what lies over the view. */
  open?: (page: Page) => Promise<unknown>
  /** What axe looks at; left out: the view without what is around it, which is the same in all of them. */
  within?: string
}

/** Pictures of what has a finding; of everything, if this names a folder. */
const wanted = process.env.WARREN_TEST_PICTURES
const pictures = wanted ?? join(repoFolder, '.cache/dashboard-findings')

export function readableSuite(dashboard: DashboardFixture): void {
  it('can be read by a screen reader in both themes, on a desktop and on a phone, without moving it sideways', async () => {
    const { warren, things, busyPath } = dashboard
    const { volumeID, webhookID, templateID } = things
    const parts = ['', '/logs', '/files', '/terminal', '/processes', '/network', '/connect']
    const paths = [
      ...parts.map((part) => busyPath() + part),
      ...['templates', `templates/${templateID}`, 'snapshots', 'volumes', `volumes/${volumeID}`, 'secrets'],
      ...['webhooks', `webhooks/${webhookID}`, 'keys', 'team', 'sandboxes/inone', 'machine', 'nothing'],
    ]
    const dialog = (name: string) => async (page: Page) => {
      await page.getByRole('button', { name, exact: true }).click()
      await page.getByRole('dialog').waitFor()
    }
    await readAll(warren.apiKey, [
      { path: 'sandboxes', within: 'html' },
      ...paths.map((path) => ({ path })),
      { path: 'sandboxes', open: dialog('New sandbox'), within: 'dialog' },
      { path: 'templates', open: dialog('New template'), within: 'dialog' },
      { path: 'keys', open: (page) => showKey(page), within: 'dialog' },
      { path: 'team', open: (page) => find(page, ''), within: 'dialog' },
      { path: 'team', open: (page) => find(page, 'qqqq'), within: 'dialog' },
    ])
    await readAll(warren.adminToken, [
      { path: 'sandboxes', within: 'html' },
      ...['machine', 'shares', 'team', 'volumes', 'sandboxes/inone'].map((path) => ({ path })),
    ])
  })

  async function find(page: Page, text: string): Promise<void> {
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: 'Find or do' }).fill(text)
    if (text !== '') await page.getByText('Nothing has this name').waitFor()
  }

  async function showKey(page: Page): Promise<void> {
    await page.getByRole('button', { name: 'New key' }).click()
    await enterName(page, 'read-aloud', 'Create')
    await page.getByRole('dialog', { name: 'Your new key' }).waitFor()
  }

  async function readAll(secret: string, views: readonly View[]): Promise<void> {
    const { warren, browser } = dashboard
    const context = await browser.newContext({
      viewport: sizes.desktop,
      reducedMotion: 'reduce',
      // It makes style sheets to look at others, which the page's policy rejects.
      bypassCSP: true,
    })
    const findings: string[] = []
    const page = await context.newPage()
    page.setDefaultTimeout(withinMs)
    await page.addInitScript(axeSource)
    const read = async (view: View) => {
      for (const size of ['desktop', 'phone'] as const) findings.push(...(await readIn(page, view, size)))
    }
    await goTo(page, `${warren.url}/dashboard`)
    await page.getByLabel('API key or admin token').waitFor()
    await read({ path: 'login', within: 'html' })
    await logIn(page, warren.url, secret)
    for (const view of views) {
      await page.setViewportSize(sizes.desktop)
      await goTo(page, `${warren.url}/dashboard/${view.path}`)
      await page.locator('main :is(h1, h2)').first().waitFor()
      await eventually(async () => assert.equal(await page.locator('.waiting').count(), 0))
      await view.open?.(page)
      await read(view)
    }
    await context.close()
    assert.deepEqual(findings, [])
  }

  async function readIn(
    page: Page,
    { path, within = 'main' }: View,
    size: keyof typeof sizes,
  ): Promise<string[]> {
    const { width } = sizes[size]
    await page.setViewportSize(sizes[size])
    const all: string[] = []
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      const findings = [
        ...(await findingsOf(page, within, themes[colorScheme])),
        ...(await cutOff(page, width)),
      ]
      const view = `${path} ${within} ${size} ${colorScheme}`
      const picture = join(pictures, `${view.replaceAll(/[^\w]+/g, '-')}.png`)
      if (wanted !== undefined || findings.length > 0) {
        mkdirSync(pictures, { recursive: true })
        await page.screenshot({ path: picture })
      }
      all.push(...findings.map((finding) => `${view}, as in ${picture}: ${finding}`))
    }
    return all
  }
}

/** What would move the page sideways, or lies outside of a list that does not scroll. */
async function cutOff(page: Page, width: number): Promise<string[]> {
  const widths = (await page.evaluate(`[document.documentElement, ...document.querySelectorAll('.rows')]
    .map((one) => [one.className, one.scrollWidth, one.clientWidth])`)) as [string, number, number][]
  return widths
    .filter(([, scrolled, shown]) => scrolled > Math.min(shown, width))
    .map(([name, scrolled, shown]) => `${name} is ${scrolled} wide, and ${shown} of it are shown`)
}
