/** The page itself: its size, its lists of thousands, and who can read it. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { ListedSandbox } from '../../src/contract/rest/sandbox.ts'
import { axeSource, findingsOf } from './axe.ts'
import { goTo, logIn } from './browser.ts'
import { type DashboardFixture, phoneSize } from './fixture.ts'

const crowd = 5000
const aPage = 500
const maxFirstBytes = 300 * 1024

export function pageSuite(dashboard: DashboardFixture): void {
  it('loads quickly: the first view is small, and all files are cached by their name', async () => {
    const { warren, openPage } = dashboard
    const { context: other, page: fresh } = await openPage()
    const sizes: number[] = []
    const headers: Record<string, string>[] = []
    fresh.on('response', async (response) => {
      if (!response.url().includes('/dashboard')) return
      headers.push(response.headers())
      sizes.push(Number(response.headers()['content-length']))
    })
    await logIn(fresh, warren.url, warren.apiKey)
    const total = sizes.reduce((sum, size) => sum + size, 0)
    assert.ok(total > 20_000 && total < maxFirstBytes, `the first view has ${total} bytes`)
    const assets = headers.filter((one) => one['content-encoding'] !== undefined)
    assert.ok(assets.length >= 2)
    for (const one of assets) assert.match(one['cache-control'] ?? '', /immutable/)
    await other.close()
  })

  it('draws a few rows of five thousand sandboxes, and the last ones when they are scrolled to', async () => {
    const { warren, openPage } = dashboard
    const { context: other, page: crowded } = await openPage()
    const idOf = (at: number) => `i${String(at).padStart(20, '0')}`
    await crowded.route(/\/v2\/sandboxes\?/, (route) => {
      const token = Number(new URL(route.request().url()).searchParams.get('nextToken') ?? 0)
      const rows = Array.from({ length: aPage }, (_, at) => listed(idOf(token + at), token + at))
      const next = token + aPage < crowd ? { 'x-next-token': String(token + aPage) } : {}
      return route.fulfill({ json: rows, headers: next as Record<string, string> })
    })
    await crowded.route(/\/sandboxes\/.*metrics/, (route) => route.fulfill({ json: [] }))
    await logIn(crowded, warren.url, warren.apiKey)
    await crowded.getByText('5,000 running').waitFor()
    assert.ok((await crowded.locator('.row.item').count()) < 60)
    await crowded.evaluate("document.querySelector('.rows .body').scrollTo(0, 1e9)")
    await crowded.getByRole('link', { name: idOf(crowd - 1) }).waitFor()
    assert.ok((await crowded.locator('.row.item').count()) < 60)
    await other.close()
  })

  const listed = (sandboxID: string, at: number): ListedSandbox => ({
    sandboxID,
    templateID: 'base',
    clientID: '',
    cpuCount: 1,
    memoryMB: 512,
    diskSizeMB: 512,
    state: 'running',
    envdVersion: '0',
    startedAt: new Date(2e12 - at * 1000).toISOString(),
    endAt: new Date(3e12).toISOString(),
  })

  it('has documentation that is searched and copied from, in both themes and on a phone', async () => {
    const { warren, browser } = dashboard
    const context = await browser.newContext({
      permissions: ['clipboard-read', 'clipboard-write'],
      bypassCSP: true,
    })
    const page = await context.newPage()
    const typed = Promise.withResolvers<void>()
    let indexRequests = 0
    await page.route('**/docs/search.json', async (route) => {
      indexRequests++
      await typed.promise
      await route.continue()
    })
    await goTo(page, `${warren.url}/docs`)
    await page.keyboard.press('/')
    await page.keyboard.type('first sandbox')
    typed.resolve()
    const found = page.locator('#found').getByRole('link')
    await found.first().waitFor()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Your first sandbox', level: 1 }).waitFor()
    assert.equal(indexRequests, 1)
    await page.locator('main pre').first().hover()
    await page.getByRole('button', { name: 'Copy' }).first().click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    const copied = "bin/warren run -- sh -c 'echo hello from $(whoami)'"
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), copied)
    await page.evaluate(axeSource)
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      assert.deepEqual(await findingsOf(page, 'html'), [])
    }
    await page.setViewportSize(phoneSize)
    for (const name of ['api', 'templates']) {
      await goTo(page, `${warren.url}/docs/${name}`)
      assert.equal(await page.evaluate('document.documentElement.scrollWidth'), phoneSize.width, name)
    }
    await page.getByRole('link', { name: 'Pages' }).click()
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Volumes' }).click()
    await page.getByRole('heading', { name: 'Volumes', level: 1 }).waitFor()
    await context.close()
  })
}
