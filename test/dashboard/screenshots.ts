/**
 * `npm run screenshots` makes the pictures of docs/dashboard: it starts a Warren, fills it with what people make, and opens
 * each view in both themes, and some on a phone. `--png FOLDER` writes them there as PNG, too, for programs that know no WebP.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { delay } from '../../src/lib/clock.ts'
import { anyIsolation, repoFolder, startWarren, type Warren } from '../support/warren.ts'
import { goTo, logIn, openBrowser } from './browser.ts'
import { makeOthers, makeSandboxes, makeThings } from './scene.ts'

const { values } = parseArgs({
  options: { png: { type: 'string' }, only: { type: 'string' }, fresh: { type: 'boolean' } },
})
const folder = join(repoFolder, 'docs/dashboard')
const quality = 82
/** Figures are sampled every five seconds; a curve needs a few. */
const curvesMs = 25_000

const sizes = { desktop: { width: 1360, height: 850 }, phone: { width: 390, height: 780 } }
type Size = keyof typeof sizes

const dockerfile = 'FROM e2bdev/base\nRUN pip install pandas openpyxl\nENV REPORTS=/home/user/reports\n'

type View = {
  name: string
  path: string
  asAdmin?: boolean
  phone?: boolean
  prepare?: (page: Page) => Promise<unknown>
}

async function capture(page: Page, name: string): Promise<void> {
  if (values.png !== undefined) await page.screenshot({ path: join(values.png, `${name}.png`) })
  const session = await page.context().newCDPSession(page)
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality })
  writeFileSync(join(folder, `${name}.webp`), Buffer.from(data, 'base64'))
}

/** The doctor names the data folder and authorities, which are a matter of the machine that takes the pictures. */
const withoutOwnMachine = (page: Page) =>
  page.evaluate(`for (const row of document.querySelectorAll('.problems li')) {
    const isOfMachine = row.querySelector('.name')?.textContent === 'authorities'
    if (isOfMachine || row.textContent.includes(${JSON.stringify(repoFolder)})) row.remove()
  }`)

async function captureAll(
  browser: Browser,
  warren: Warren,
  views: readonly View[],
  dark: boolean,
  size: Size,
) {
  for (const asAdmin of [false, true]) {
    const wanted = views.filter(
      (view) => Boolean(view.asAdmin) === asAdmin && (size === 'desktop' || view.phone),
    )
    if (wanted.length === 0) continue
    const context = await browser.newContext({
      viewport: sizes[size],
      colorScheme: dark ? 'dark' : 'light',
      reducedMotion: 'reduce',
    })
    const page = await context.newPage()
    page.on('pageerror', (error) => process.stderr.write(`${error.message}\n`))
    page.on('console', (message) => {
      if (message.type() === 'error') process.stderr.write(`${message.text()}\n`)
    })
    const suffix = `${size === 'phone' ? '-phone' : ''}-${dark ? 'dark' : 'light'}`
    if (!asAdmin && size === 'desktop' && !values.only) {
      await goTo(page, `${warren.url}/dashboard`)
      await page.getByLabel('API key or admin token').waitFor()
      await capture(page, `login${suffix}`)
    }
    await logIn(page, warren.url, asAdmin ? warren.adminToken : warren.apiKey)
    for (const { name, path, prepare } of wanted) {
      const url = `${warren.url}/dashboard/${path}`
      // Chromium breaks it off when another Warren of this machine makes a network.
      await goTo(page, url)
      await page.locator('main h1').waitFor()
      await page.waitForLoadState('networkidle').catch(() => {})
      await prepare?.(page)
      await delay(700)
      await capture(page, name + suffix)
      process.stderr.write('.')
    }
    await context.close()
  }
}

const warren = await startWarren(anyIsolation, { settings: { WARREN_WARM_SANDBOXES: '1' } })
try {
  process.env.E2B_VOLUME_API_URL = warren.url
  for (const one of [folder, values.png ?? folder]) mkdirSync(one, { recursive: true })
  const { busy, paused } = await makeSandboxes(warren)
  const { volumeID, webhookID, templateID } = await makeThings(warren)
  await makeOthers(warren)
  await busy.createSnapshot({ name: 'report-read' })
  await busy.commands.run(
    'timeout 90 sh -c "while :; do python3 -c \\"sum(range(10**6))\\"; sleep 0.3; done"',
    {
      background: true,
      timeoutMs: 0,
    },
  )
  await delay(curvesMs)
  const sandbox = `sandboxes/${busy.sandboxId}`
  const shell = async (page: Page) => {
    await page.getByText('connected', { exact: true }).waitFor()
    await page.keyboard.type('ls -la && python3 --version && uname -sr\n')
    await delay(1500)
  }
  const allViews: View[] = [
    { name: 'sandboxes', path: 'sandboxes', phone: true },
    {
      name: 'sandbox',
      path: sandbox,
      phone: true,
      prepare: (page) => page.locator('.u-over').first().waitFor(),
    },
    { name: 'logs', path: `${sandbox}/logs`, phone: true },
    {
      name: 'files',
      path: `${sandbox}/files`,
      prepare: (page) => page.getByRole('button', { name: 'server.py' }).first().click(),
    },
    { name: 'terminal', path: `${sandbox}/terminal`, prepare: shell },
    {
      name: 'processes',
      path: `${sandbox}/processes`,
      prepare: (page) => page.locator('td').first().waitFor(),
    },
    { name: 'network', path: `${sandbox}/network` },
    { name: 'connect', path: `${sandbox}/connect` },
    { name: 'paused', path: `sandboxes/${paused.sandboxId}/terminal` },
    { name: 'templates', path: 'templates', phone: true },
    {
      name: 'new-template',
      path: 'templates',
      prepare: async (page) => {
        await page.getByRole('button', { name: 'New template' }).click()
        await page.getByRole('dialog').getByRole('button', { name: 'Dockerfile' }).click()
        await page.getByRole('dialog').getByLabel('Name').fill('report-tools')
        await page.getByRole('dialog').getByLabel('Dockerfile').fill(dockerfile)
      },
    },
    { name: 'template', path: `templates/${templateID}` },
    { name: 'snapshots', path: 'snapshots' },
    { name: 'volume', path: `volumes/${volumeID}` },
    { name: 'secrets', path: 'secrets' },
    { name: 'webhook', path: `webhooks/${webhookID}` },
    { name: 'keys', path: 'keys' },
    { name: 'team', path: 'team' },
    {
      name: 'machine',
      path: 'machine',
      asAdmin: true,
      phone: true,
      prepare: (page) =>
        page
          .locator('.problems li')
          .first()
          .waitFor()
          .then(() => withoutOwnMachine(page)),
    },
    { name: 'shares', path: 'shares', asAdmin: true, phone: true },
    { name: 'teams', path: 'team', asAdmin: true },
    { name: 'palette', path: 'sandboxes', prepare: (page) => page.keyboard.press('Control+k') },
    { name: 'new-sandbox', path: 'sandboxes?new=1' },
  ]
  const views = allViews.filter(({ name }) => !values.only || values.only.split(',').includes(name))
  const browser = await openBrowser()
  for (const dark of [false, true]) {
    await captureAll(browser, warren, views, dark, 'desktop')
    await captureAll(browser, warren, views, dark, 'phone')
  }
  await browser.close()
} finally {
  await warren.api('/v2/sandboxes?state=running,paused').then(async (answer) => {
    for (const { sandboxID } of (await answer.json()) as { sandboxID: string }[]) {
      await warren.api(`/sandboxes/${sandboxID}`, { method: 'DELETE' })
    }
  })
  await warren.stop()
}
