import assert from 'node:assert/strict'
import { newUUID } from '../../lib/ids.ts'
import { insertSandboxIn, insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const entry = (
  changes: { snapshotName?: string; since?: number; nodeID?: string; sandboxID?: string } = {},
) => ({
  snapshotName: 'ione-run',
  nodeID: 'node-a',
  sandboxID: null,
  reason: 'No sandbox and no template owns this snapshot.',
  since: time,
  ...changes,
})

export function quarantineSuite(sandboxTest: StoreTest): void {
  sandboxTest('a quarantine lists the snapshots of one Warren, the oldest first', async ({ quarantine }) => {
    const [old, young] = [entry({ since: time - 1 }), entry({ snapshotName: 'itwo-run' })]
    await quarantine.insert(young)
    await quarantine.insert(old)
    await quarantine.insert(entry({ snapshotName: 'ithree-run', nodeID: 'node-b' }))
    assert.deepEqual(await quarantine.list('node-a'), [old, young])
    assert.equal((await quarantine.list()).length, 3)
    assert.deepEqual(await quarantine.find('itwo-run'), young)
    await quarantine.remove('itwo-run')
    assert.equal(await quarantine.find('itwo-run'), undefined)
  })

  sandboxTest(
    'a snapshot that is already in quarantine keeps its time and reason',
    async ({ quarantine }) => {
      await quarantine.insert(entry())
      await quarantine.insert({ ...entry({ since: time + 5 }), reason: 'Another reason.' })
      assert.deepEqual(await quarantine.list('node-a'), [entry()])
    },
  )

  sandboxTest(
    'an ended sandbox becomes paused again, and its snapshot leaves the quarantine',
    async (stores) => {
      const { sandboxes, quarantine } = stores
      const team = await insertTeam(stores)
      const { sandboxID } = await insertSandboxIn(stores, team.teamID, 'ended')
      const snapshot = { name: 'ione-run', memory: false, frozen: false, agentUnresponsive: false }
      const handle = { driver: 'fake', version: 1, data: {} }
      const changes = { snapshot, handle, runID: newUUID(), endAt: time + 7 }
      await quarantine.insert(entry({ sandboxID }))
      const row = await sandboxes.reopen(sandboxID, changes)
      const cleared = { state: 'paused', endedAt: null, endReason: null }
      assert.deepEqual({ ...row, ...changes, ...cleared }, row)
      assert.equal(await quarantine.find('ione-run'), undefined)
      await quarantine.insert(entry({ sandboxID }))
      assert.equal(await sandboxes.reopen(sandboxID, changes), undefined, 'it has not ended')
      assert.equal(await sandboxes.reopen('inothing', changes), undefined)
      assert.ok(await quarantine.find('ione-run'))
    },
  )

  sandboxTest('no sandbox is recovered with a snapshot that is no longer in quarantine', async (stores) => {
    const { sandboxes, quarantine } = stores
    const team = await insertTeam(stores)
    const { sandboxID } = await insertSandboxIn(stores, team.teamID, 'ended')
    const snapshot = { name: 'ione-run', memory: false, frozen: false, agentUnresponsive: false }
    const changes = { snapshot, handle: null, runID: newUUID(), endAt: time + 7 }
    assert.equal(await sandboxes.reopen(sandboxID, changes), undefined)
    await quarantine.insert(entry({ sandboxID }))
    await quarantine.markForRemoval('ione-run')
    assert.equal(await quarantine.find('ione-run'), undefined)
    assert.deepEqual(await quarantine.listRemovable('node-a'), ['ione-run'])
    assert.equal(await sandboxes.reopen(sandboxID, changes), undefined)
    assert.equal((await sandboxes.find(sandboxID))?.state, 'ended')
    await quarantine.remove('ione-run')
    assert.deepEqual(await quarantine.listRemovable('node-a'), [])
  })

  sandboxTest('an ended row stays as long as one of its snapshots is in quarantine', async (stores) => {
    const { sandboxes, quarantine } = stores
    const team = await insertTeam(stores)
    const { sandboxID } = await insertSandboxIn(stores, team.teamID, 'ended')
    await quarantine.insert(entry({ sandboxID }))
    assert.equal(await sandboxes.prune(Number.MAX_SAFE_INTEGER), 0)
    await quarantine.remove('ione-run')
    assert.equal(await sandboxes.prune(Number.MAX_SAFE_INTEGER), 1)
  })

  sandboxTest('names of snapshots include those that an interrupted pause may have made', async (stores) => {
    const team = await insertTeam(stores)
    const { sandboxID, runID } = await insertSandboxIn(stores, team.teamID, 'pausing')
    await insertSandboxIn(stores, team.teamID, 'ended')
    assert.deepEqual(await stores.sandboxes.listSnapshotNames(), [`${sandboxID}-${runID}`])
  })
}
