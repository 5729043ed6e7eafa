/** One browser before one Warren with real sandboxes, which the suites of all views of the dashboard share. */
import type { Browser, BrowserContext, Page } from 'playwright-core'
import type { Warren } from '../support/warren.ts'
import { goTo, logIn, openBrowser } from './browser.ts'
import { makeSandboxes, makeThings, type Scene } from './scene.ts'

export const withinMs = 180_000
/** What the browser says of requests that are refused, or given up for reasons of this machine; the dashboard tries again. */
const ofTheNetwork = /status of [45]\d\d|ERR_CONNECTION_RESET|ERR_NETWORK_CHANGED/
export const phoneSize = { width: 390, height: 780 }

export class DashboardFixture {
  /** What the browser refused to do or to run, and every request to another host. */
  readonly problems: string[] = []
  warren!: Warren
  scene!: Scene
  things!: Awaited<ReturnType<typeof makeThings>>
  browser!: Browser
  /** The first page, with the team's key. */
  context!: BrowserContext
  page!: Page

  async start(warren: Warren): Promise<void> {
    this.warren = warren
    process.env.E2B_VOLUME_API_URL = this.warren.url
    this.scene = await makeSandboxes(this.warren)
    this.things = await makeThings(this.warren)
    this.browser = await openBrowser()
    Object.assign(this, await this.openPage())
    await logIn(this.page, this.warren.url, this.warren.apiKey)
  }

  async close(): Promise<void> {
    delete process.env.E2B_VOLUME_API_URL
    await this.browser?.close()
    await this.warren?.stop()
  }

  readonly openPage = async (): Promise<{ context: BrowserContext; page: Page }> => {
    const context = await this.browser.newContext({ reducedMotion: 'reduce' })
    const page = await context.newPage()
    page.setDefaultTimeout(withinMs)
    page.on('pageerror', (error) => this.problems.push(error.message))
    page.on('console', (message) => {
      if (message.type() === 'error' && !ofTheNetwork.test(message.text())) this.problems.push(message.text())
    })
    page.on('request', (request) => {
      if (!/^(blob|data):/.test(request.url()) && !request.url().startsWith(`${this.warren.url}/`))
        this.problems.push(request.url())
    })
    return { context, page }
  }

  /** A view of the first page. */
  readonly open = async (path: string): Promise<void> => {
    await goTo(this.page, `${this.warren.url}/dashboard/${path}`)
    await this.page.locator('main h1').waitFor()
  }

  readonly busyPath = (): string => `sandboxes/${this.scene.busy.sandboxId}`
}

/** Fills in the dialog that asks for a name. */
export async function enterName(page: Page, name: string, action: string): Promise<void> {
  await page.getByRole('dialog').getByLabel('Name').fill(name)
  await page.getByRole('dialog').getByRole('button', { name: action }).click()
}
