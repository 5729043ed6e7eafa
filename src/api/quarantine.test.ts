import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { loseSandbox } from '../../test/support/lost-sandbox.ts'

describe('the quarantine over the API', () => {
  it('lists snapshots without an owner, and gives a sandbox back to its team as paused', async () => {
    await using warren = await openApi()
    const { sandboxID, snapshotName } = await loseSandbox(warren.fixture)
    const [entry, ...others] = (await warren.ask('GET', '/admin/quarantine', warren.asAdmin)).json()
    assert.deepEqual([entry.snapshotName, entry.sandboxID, others], [snapshotName, sandboxID, []])
    assert.ok(Date.parse(entry.deletedAt) > Date.parse(entry.since))
    const path = `/admin/quarantine/${snapshotName}/recover`
    const recovered = await warren.ask('POST', path, warren.asAdmin)
    assert.deepEqual(recovered.json(), { sandboxID, teamID: warren.fixture.team.teamID })
    assert.equal((await warren.ask('GET', `/sandboxes/${sandboxID}`)).json().state, 'paused')
    assert.equal(
      (await warren.ask('POST', `/sandboxes/${sandboxID}/connect`, { body: { timeout: 60 } })).status,
      201,
    )
    assert.equal((await warren.ask('POST', path, warren.asAdmin)).status, 404)
  })

  it("deletes a snapshot at the operator's request", async () => {
    await using warren = await openApi()
    const { snapshotName } = await loseSandbox(warren.fixture)
    const path = `/admin/quarantine/${snapshotName}`
    assert.equal((await warren.ask('DELETE', path, warren.asAdmin)).status, 204)
    assert.equal(warren.fixture.driver.world.snapshots.has(snapshotName), false)
    assert.deepEqual((await warren.ask('GET', '/admin/quarantine', warren.asAdmin)).json(), [])
    assert.equal((await warren.ask('DELETE', path, warren.asAdmin)).status, 404)
  })

  it('is for the operator alone', async () => {
    await using warren = await openApi()
    assert.equal((await warren.ask('GET', '/admin/quarantine')).status, 401)
    assert.equal((await warren.ask('POST', '/admin/quarantine/a/recover')).status, 401)
    assert.equal((await warren.ask('DELETE', '/admin/quarantine/a')).status, 401)
  })
})
