import assert from 'node:assert/strict'
import type { AuditLine, PendingChange } from '../../core/audit/audit-line.ts'
import { onBehalfOfChange } from '../../core/audit/current-change.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import { aKey, aSandbox, aTeam, haveTemplate, insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const aLine = (changes: Partial<AuditLine> = {}): AuditLine => ({
  lineID: newUUID(),
  at: time,
  teamID: 'team',
  personID: null,
  person: null,
  credential: 'api key',
  credentialID: 'key',
  address: '192.0.2.1',
  action: 'team.create',
  object: null,
  requestID: 'request',
  status: null,
  finishedAt: null,
  ...changes,
})

const aChange = (changes: Partial<AuditLine> = {}): PendingChange => ({ line: aLine(changes), state: 'open' })

const newestFirst = { order: 'desc', limit: 100 } as const

export function auditSuite(storeTest: StoreTest): void {
  storeTest('a change and its line are written together, by a statement or a transaction', async (stores) => {
    await haveTemplate(stores)
    const one = aChange()
    const team = aTeam()
    await onBehalfOfChange(one, () => stores.teams.insertTeam(team))
    const two = aChange({ action: 'sandbox.create' })
    const sandbox = aSandbox(team.teamID)
    await onBehalfOfChange(two, () => stores.sandboxes.insertWithinLimits(sandbox, team.limits))
    assert.deepEqual([one.state, two.state], ['written', 'written'])
    const lines = await stores.audit.list({}, newestFirst)
    assert.deepEqual(new Set(lines), new Set([one.line, two.line]))
    assert.ok(await stores.sandboxes.find(sandbox.sandboxID))
  })

  storeTest('a change that fails leaves no line, and one line is enough for a change', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const change = aChange()
    const work = async () => {
      await assert.rejects(stores.keys.insertKey(aKey('nobody')), (error) => isAppError(error, 'not_found'))
      const unknown = {
        teamID: 'nobody',
        email: 'a@example.com',
        role: 'owner',
        addedBy: '',
        at: time,
      } as const
      await assert.rejects(stores.members.add({ ...unknown, personID: 'p' }))
      assert.deepEqual(await stores.audit.list({}, newestFirst), [])
      assert.equal(change.state, 'open')
      const key = aKey(teamID)
      await stores.keys.insertKey(key)
      await stores.keys.revokeKey(teamID, key.keyID, time)
      await stores.keys.listKeys(teamID)
    }
    await onBehalfOfChange(change, work)
    assert.deepEqual(await stores.audit.list({}, newestFirst), [change.line])
  })

  storeTest('an answer completes the line that is there, and makes one otherwise', async ({ audit }) => {
    const line = aLine()
    const answered = { ...line, object: 'made', status: 201, finishedAt: time + 5 }
    await audit.finish([line, aLine({ at: time - 1, status: 403, finishedAt: time + 4 })])
    await audit.finish([answered])
    assert.deepEqual((await audit.list({}, newestFirst))[0], answered)
    const since = await audit.finishedSince({}, time + 5, 10)
    assert.deepEqual(since, [answered])
  })

  storeTest('lines are found by team, person, action, object and time, in pages', async ({ audit }) => {
    const lines = [
      aLine({ at: time, action: 'key.create', object: 'one' }),
      aLine({ at: time + 1, action: 'key.revoke', personID: 'ada' }),
      aLine({ at: time + 2, action: 'keys' }),
      aLine({ at: time + 3, teamID: 'other' }),
    ]
    await audit.finish(lines)
    const found = async (filter: Parameters<typeof audit.list>[0]) =>
      (await audit.list(filter, { order: 'asc', limit: 100 })).map(({ at }) => at - time)
    assert.deepEqual(await found({ teamID: 'team' }), [0, 1, 2])
    assert.deepEqual(await found({ personID: 'ada' }), [1])
    assert.deepEqual(await found({ action: 'key.' }), [0, 1])
    assert.deepEqual(await found({ action: 'key.create' }), [0])
    assert.deepEqual(await found({ object: 'one' }), [0])
    assert.deepEqual(await found({ from: time + 1, to: time + 2 }), [1, 2])
    const after = { at: lines[2]!.at, lineID: lines[2]!.lineID }
    const next = await audit.list({}, { order: 'desc', limit: 1, after })
    assert.deepEqual(next, [lines[1]])
    assert.equal(await audit.prune(time + 2, 1), 1)
    assert.equal(await audit.prune(time + 2, 10), 1)
    assert.deepEqual(await found({}), [2, 3])
  })
}
