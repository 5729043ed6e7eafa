/** What a team has besides sandboxes. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Route } from 'playwright-core'
import type { ListedSandbox } from '../../src/contract/rest/sandbox.ts'
import type { ApiKey } from '../../src/contract/rest/team.ts'
import { type DashboardFixture, enterName } from './fixture.ts'

export function teamSuite(dashboard: DashboardFixture): void {
  it('starts one sandbox from a template, and tells why the template cannot be deleted then', async () => {
    const { warren, things, page, open } = dashboard
    const template = `templates/${things.templateID}`
    await open(template)
    await page.getByText('RUN sleep 1').first().waitFor()
    const breakOff = async (route: Route) => {
      await route.fetch()
      await route.abort('connectionreset')
    }
    await page.route(/\/v2\/sandboxes$/, breakOff, { times: 1 })
    await page.getByRole('button', { name: 'New sandbox' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click()
    await page.getByRole('button', { name: 'Pause' }).waitFor()
    const running = (await (await warren.api('/v2/sandboxes')).json()) as ListedSandbox[]
    assert.equal(running.filter(({ templateID }) => templateID === things.templateID).length, 1)
    await open(template)
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByText('because there are running sandboxes using it').waitFor()
  })

  it('shows a key once, never again, and renames it', async () => {
    const { warren, page, open } = dashboard
    await open('keys')
    await page.getByRole('button', { name: 'New key' }).click()
    await enterName(page, 'from the dashboard', 'Create')
    const shown = page.getByRole('dialog', { name: 'Your new key' })
    const key = (await shown.locator('code').textContent()) ?? ''
    assert.match(key, /^e2b_[0-9a-f]{40}$/)
    await shown.getByRole('button', { name: 'Close' }).click()
    await page.getByText('from the dashboard').waitFor()
    assert.ok(!(await page.content()).includes(key))
    await page.getByRole('button', { name: 'Rename from the dashboard' }).click()
    await enterName(page, 'of the robot', 'Rename')
    await page.getByText('of the robot', { exact: true }).waitFor()
    const keys = (await (await warren.api('/api-keys')).json()) as ApiKey[]
    assert.ok(keys.some(({ name }) => name === 'of the robot'))
  })

  it('stores a secret of which only the name is shown, and browses a volume', async () => {
    const { things, page, open } = dashboard
    await open('secrets')
    await page.getByRole('button', { name: 'New secret' }).click()
    await page.getByRole('dialog').getByLabel('Value').fill('never-shown-again')
    await enterName(page, 'robot-token', 'Save')
    await page.getByText('robot-token', { exact: true }).waitFor()
    assert.ok(!(await page.content()).includes('never-shown-again'))
    await open(`volumes/${things.volumeID}`)
    await page.getByRole('button', { name: 'New folder' }).click()
    await enterName(page, 'clean', 'Create')
    await page.getByRole('button', { name: 'clean', exact: true }).click()
    await page.getByText('This folder is empty').waitFor()
  })
}
