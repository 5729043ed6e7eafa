/** What a team has besides sandboxes. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Sandbox } from 'e2b'
import type { Route } from 'playwright-core'
import type { Delivery, Webhook } from '../../src/contract/rest/event.ts'
import type { ListedSandbox } from '../../src/contract/rest/sandbox.ts'
import type { ApiKey } from '../../src/contract/rest/team.ts'
import { eventually } from '../support/eventually.ts'
import { type DashboardFixture, enterName } from './fixture.ts'

export function teamSuite(dashboard: DashboardFixture): void {
  it('starts one sandbox from a template, and shows why the template cannot be deleted then', async () => {
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

  it('shows a key once and never again, and renames it', async () => {
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

  it('stores a secret and shows only its name, and browses a volume', async () => {
    const { things, page, open } = dashboard
    await open('secrets')
    await page.getByRole('button', { name: 'New secret' }).click()
    await page.getByRole('dialog').getByLabel('Value').fill('never-shown-again')
    await enterName(page, 'robot-token', 'Save')
    await page.getByText('robot-token', { exact: true }).waitFor()
    assert.ok(!(await page.content()).includes('never-shown-again'))
    await open('volumes')
    const row = page.getByRole('row').filter({ hasText: things.volumeID })
    await row.getByText(/^[\d.]+ [MG]iB$/).waitFor()
    await row.getByText('no sandbox').waitFor()
    await row.getByText(/ago|just now/).waitFor()
    await open(`volumes/${things.volumeID}`)
    await page.getByRole('button', { name: 'New folder' }).click()
    await enterName(page, 'clean', 'Create')
    await page.getByRole('button', { name: 'clean', exact: true }).click()
    await page.getByText('This folder is empty').waitFor()
  })

  it('shows what the team used by day and what is left of its budget, and gives it as a file', async () => {
    const { page, open } = dashboard
    await open('team')
    const card = page.getByRole('region', { name: 'Use by day' }).first()
    await card.getByRole('row').nth(1).waitFor()
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'CSV' }).click()
    assert.match((await saved).suggestedFilename(), /^usage-.+-\d{4}-\d\d-\d\d\.csv$/)
    await page
      .getByRole('radio', { name: 'By person' })
      .or(page.getByRole('button', { name: 'By person' }))
      .click()
    await page.getByRole('cell', { name: 'services' }).first().waitFor()
  })

  it('creates a webhook, shows the outcome of its deliveries, disables it and deletes it', async () => {
    const { warren, scene, page, open } = dashboard
    const dialog = page.getByRole('dialog')
    await open('webhooks')
    await page.getByRole('button', { name: 'New webhook' }).click()
    await dialog.getByLabel('Secret that signs requests').fill('a secret of 16 bytes or more')
    await dialog.getByLabel('URL').fill('http://127.0.0.1/hook')
    await enterName(page, 'robots', 'Create')
    await dialog.getByText('its host is on an internal network').waitFor()
    await dialog.getByLabel('URL').fill('https://receiver.invalid/hook')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('link', { name: 'robots' }).click()
    await page.getByText('Nothing was sent yet').waitFor()
    const webhookID = new URL(page.url()).pathname.split('/').at(-1)!
    await scene.busy.setTimeout(3_600_000)
    const path = `/events/webhooks/${webhookID}/deliveries`
    await eventually(async () => {
      const [last] = (await (await warren.api(path)).json()) as Delivery[]
      assert.ok(last?.lastError)
    })
    await open(`webhooks/${webhookID}`)
    const delivery = page.getByRole('row').filter({ hasText: 'updated' })
    await delivery.getByText('retrying').waitFor()
    await delivery.getByText('The name receiver.invalid could not be looked up').waitFor()
    await page.getByRole('button', { name: 'Turn off' }).click()
    await page.getByRole('button', { name: 'Turn on' }).waitFor()
    const stored = (await (await warren.api(`/events/webhooks/${webhookID}`)).json()) as Webhook
    assert.equal(stored.enabled, false)
    await delivery.getByRole('link', { name: scene.busy.sandboxId }).click()
    await page.getByRole('heading', { name: scene.busy.sandboxId }).waitFor()
    await page.goBack()
    await page.getByRole('button', { name: 'Delete' }).click()
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await page.getByText('The webhook is deleted.').waitFor()
    assert.equal((await warren.api(`/events/webhooks/${webhookID}`)).status, 404)
  })

  it('starts a sandbox from a snapshot with its files, and deletes the snapshot', async () => {
    const { warren, scene, page, open } = dashboard
    await scene.busy.files.write('/home/user/then', 'of that moment')
    const { snapshotId } = await scene.busy.createSnapshot({ name: 'that-moment' })
    await scene.busy.files.write('/home/user/then', 'changed since')
    await open('snapshots')
    const row = page.getByRole('row').filter({ hasText: 'that-moment' })
    await row.getByRole('button', { name: 'Start' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click()
    await page.getByRole('button', { name: 'Pause' }).waitFor()
    const copy = await Sandbox.connect(new URL(page.url()).pathname.split('/').at(-1)!, warren.client)
    assert.equal(await copy.files.read('/home/user/then'), 'of that moment')
    await copy.kill()
    await open('snapshots')
    await row.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByText('The snapshot is deleted.').waitFor()
    await row.waitFor({ state: 'detached' })
    await assert.rejects(Sandbox.create(snapshotId, warren.client))
  })
}
