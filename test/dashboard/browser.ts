/** Debian's Chromium, as the test and the pictures of the dashboard use it. */
import { type Browser, chromium, type Page } from 'playwright-core'
import { createProgress } from '../../src/app/setup/progress.ts'
import { installSystemPackages } from '../../src/app/setup/system-packages.ts'
import { errorText } from '../../src/lib/app-error.ts'

const file = '/usr/bin/chromium'

export async function openBrowser(...args: string[]): Promise<Browser> {
  const needed = { package: 'chromium', file, why: 'opens the dashboard' }
  await installSystemPackages([needed], createProgress(process.stderr))
  return chromium.launch({ executablePath: file, args: ['--no-sandbox', ...args] })
}

/**
 * Chromium gives up what it loads when this machine gets a network interface, as for every sandbox of any test beside this
 * one; its page that says so may come after the next try.
 */
const isGivenUp = (error: unknown) => /ERR_NETWORK_CHANGED|chrome-error:/.test(errorText(error))

export async function goTo(page: Page, url: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await page.goto(url)
      return
    } catch (error) {
      if (tries === 10 || !isGivenUp(error)) throw error
    }
  }
}

export async function logIn(page: Page, url: string, secret: string): Promise<void> {
  await goTo(page, `${url}/dashboard`)
  await page.getByLabel('API key or admin token').fill(secret)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.locator('nav[aria-label="Views"]').waitFor({ state: 'attached' })
}
