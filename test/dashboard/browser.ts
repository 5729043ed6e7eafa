/** Debian's Chromium, as the test and the pictures of the dashboard use it. */
import { type Browser, chromium, type Page } from 'playwright-core'
import { createProgress } from '../../src/app/setup/progress.ts'
import { installSystemPackages } from '../../src/app/setup/system-packages.ts'

const file = '/usr/bin/chromium'

export async function openBrowser(...args: string[]): Promise<Browser> {
  const needed = { package: 'chromium', file, why: 'opens the dashboard' }
  await installSystemPackages([needed], createProgress(process.stderr))
  return chromium.launch({ executablePath: file, args: ['--no-sandbox', ...args] })
}

export async function logIn(page: Page, url: string, secret: string): Promise<void> {
  await page.goto(`${url}/dashboard`)
  await page.getByLabel('API key or admin token').fill(secret)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.locator('nav[aria-label="Views"]').waitFor({ state: 'attached' })
}
