import assert from 'node:assert/strict'
import type { EventType } from '../../core/event/event.ts'
import type { SandboxState } from '../../core/sandbox/row/sandbox.ts'
import type { NamedChange, SandboxChanges } from '../../core/sandbox/row/sandbox-store.ts'
import { defaultTeamLimits } from '../../core/team/team.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Stores } from '../stores.ts'
import { aSnapshot, insertSandbox, insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

export const namedAt = (at: number): NamedChange => ({ transitionID: newUUID(), at })
const all = { order: 'asc', offset: 0, limit: 100 } as const

/** Makes moves that write events, each a second after the previous one. */
export function livesOf(stores: Stores, { sandboxID, runID }: { sandboxID: string; runID: string }) {
  let at = time
  let run = runID
  const { sandboxes } = stores
  return {
    transition: async (from: SandboxState, to: SandboxState, changes: SandboxChanges = {}) => {
      at += 1000
      const transitioned = await sandboxes.transition(
        { sandboxID, runID: run, from: [from] },
        to,
        changes,
        namedAt(at),
      )
      assert.ok(transitioned, `${from} to ${to}`)
    },
    resume: async () => {
      const changes = { runID: newUUID() }
      const { version } = (await sandboxes.find(sandboxID))!
      await sandboxes.resumeWithinLimits({ sandboxID, runID: run, version }, defaultTeamLimits, changes)
      run = changes.runID
    },
  }
}

export function eventSuite(storeTest: StoreTest): void {
  storeTest(
    'the events of a sandbox are in order, one for each change that clients can see',
    async (stores) => {
      const { teamID } = await insertTeam(stores)
      const sandbox = await insertSandbox(stores, teamID, { metadata: { a: 'b' } })
      const { sandboxID, runID } = sandbox
      const life = livesOf(stores, sandbox)
      await life.transition('creating', 'running')
      assert.ok(await stores.sandboxes.setEnd({ sandboxID, runID }, time + 5000, false, namedAt(time + 1500)))
      const row = (await stores.sandboxes.find(sandboxID))!
      await stores.sandboxes.setOptions(row, sandbox.options, namedAt(time + 1600))
      await life.transition('running', 'snapshotting')
      await life.transition('snapshotting', 'running', { isCheckpointed: true })
      await life.transition('running', 'snapshotting')
      await life.transition('snapshotting', 'running')
      await life.transition('running', 'pausing')
      await life.transition('pausing', 'running')
      await life.transition('running', 'pausing')
      await life.transition('pausing', 'paused', { snapshot: aSnapshot() })
      await life.resume()
      await life.transition('resuming', 'running', { snapshot: null })
      await life.transition('running', 'killing', { endReason: 'killed' })
      await life.transition('killing', 'ended', { endReason: 'killed', endedAt: time })
      const events = await stores.events.list({ teamID, sandboxID }, all)
      assert.deepEqual(
        events.map(({ number, type }) => [number, type]),
        [
          [1, 'created'],
          [2, 'updated'],
          [3, 'updated'],
          [4, 'checkpointed'],
          [5, 'paused'],
          [6, 'resumed'],
          [7, 'killed'],
        ],
      )
      const metadata = { sandbox_metadata: { a: 'b' } }
      assert.deepEqual(events[0]!.data, metadata)
      assert.deepEqual(events[1]!.data, {
        ...metadata,
        set_timeout: new Date(time + 5000).toISOString(),
      })
      assert.deepEqual(events[2]!.data, { ...metadata, set_network: true })
      const execution = { started_at: new Date(time).toISOString(), vcpu_count: 2, memory_mb: 512 }
      assert.deepEqual(events[4]!.data, { ...metadata, execution: { ...execution, execution_time: 9000 } })
      assert.equal(events[6]!.data.reason, 'killed')
      assert.equal(new Set(events.map(({ eventID }) => eventID)).size, 7)
      const { templateID, buildID } = sandbox
      const { eventID, ...first } = events[0]!
      const ids = { sandboxID, teamID, templateID, buildID, runID }
      assert.deepEqual(first, { number: 1, type: 'created', ...ids, data: metadata, at: time + 1000 })
      assert.notEqual(events[5]!.runID, runID)
    },
  )

  storeTest('a change that does not take effect has no event', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const { sandboxID, runID, endAt } = await insertSandbox(stores, teamID)
    const { sandboxes, events } = stores
    const transition = (from: SandboxState, to: SandboxState) =>
      sandboxes.transition({ sandboxID, runID, from: [from] }, to, {}, namedAt(time))
    assert.equal(await transition('resuming', 'running'), undefined)
    assert.equal(await sandboxes.setEnd({ sandboxID, runID }, endAt + 1, false, namedAt(time)), undefined)
    assert.ok(await transition('creating', 'running'))
    assert.ok(
      await sandboxes.setEnd({ sandboxID, runID }, endAt - 1, true, namedAt(time)),
      'it ends later already',
    )
    assert.ok(await sandboxes.setEnd({ sandboxID, runID }, endAt + 1, true, namedAt(time)))
    const types = (await events.list({ teamID }, all)).map(({ type }) => type)
    assert.deepEqual(types, ['created', 'updated'])
  })

  storeTest('a sandbox that ends while it is created has no events', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const life = livesOf(stores, await insertSandbox(stores, teamID))
    await life.transition('creating', 'killing', { endReason: 'create_failed' })
    await life.transition('killing', 'ended', { endReason: 'create_failed', endedAt: time })
    assert.deepEqual(await stores.events.list({ teamID }, all), [])
  })

  storeTest('a move that is an event from some states only must name its source state', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const { sandboxID, runID } = await insertSandbox(stores, teamID)
    const at = { sandboxID, runID, from: ['creating', 'running'] as const }
    await assert.rejects(stores.sandboxes.transition(at, 'killing', {}, namedAt(time)), (error) =>
      isAppError(error, 'internal'),
    )
  })

  storeTest('each of parallel changes has a number of its own', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const sandbox = await insertSandbox(stores, teamID)
    const { sandboxID, runID } = sandbox
    await livesOf(stores, sandbox).transition('creating', 'running')
    await Promise.all(
      Array.from({ length: 10 }, (_, at) =>
        stores.sandboxes.setEnd({ sandboxID, runID }, time + at, false, namedAt(time + at)),
      ),
    )
    const numbers = (await stores.events.list({ teamID, sandboxID }, all)).map(({ number }) => number)
    assert.deepEqual(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
  })

  storeTest('events are listed by team, sandbox and type, in either order, page by page', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const first = await insertSandbox(stores, teamID)
    const second = await insertSandbox(stores, teamID)
    await livesOf(stores, await insertSandbox(stores, other.teamID)).transition('creating', 'running')
    const lives = [livesOf(stores, first), livesOf(stores, second)]
    for (const life of lives) await life.transition('creating', 'running')
    for (const life of lives) await life.transition('running', 'killing', { endReason: 'killed' })
    const shown = async (filter: object, page: object = {}) =>
      (await stores.events.list({ teamID, ...filter }, { ...all, ...page })).map(
        ({ sandboxID, type }) => `${sandboxID === first.sandboxID ? 'first' : 'second'} ${type}`,
      )
    const byTeam = await shown({})
    assert.deepEqual(
      byTeam.map((text) => text.split(' ')[1]!),
      ['created', 'created', 'killed', 'killed'],
    )
    assert.deepEqual(await shown({}, { order: 'desc' }), byTeam.toReversed())
    assert.deepEqual(await shown({}, { offset: 1, limit: 2 }), byTeam.slice(1, 3))
    const { sandboxID } = second
    assert.deepEqual(await shown({ sandboxID }), ['second created', 'second killed'])
    const types: EventType[] = ['killed']
    assert.deepEqual(await shown({ sandboxID, types }), ['second killed'])
    assert.equal((await shown({ types: ['created', 'killed'] })).length, 4)
    assert.deepEqual(await stores.events.list({ teamID: other.teamID, sandboxID }, all), [])
  })

  storeTest('old events are removed, and the oldest of a team that has too many', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    for (const id of [teamID, other.teamID]) {
      const sandbox = await insertSandbox(stores, id)
      const life = livesOf(stores, sandbox)
      await life.transition('creating', 'running')
      await life.transition('running', 'pausing')
      await life.transition('pausing', 'paused', { snapshot: aSnapshot() })
      if (id === teamID) await life.transition('paused', 'killing')
    }
    const typesOf = async (id: string) =>
      (await stores.events.list({ teamID: id }, all)).map(({ type }) => type)
    await stores.events.prune(time, 2)
    assert.deepEqual(await typesOf(teamID), ['paused', 'killed'])
    assert.deepEqual(await typesOf(other.teamID), ['created', 'paused'])
    await stores.events.prune(time + 2000, 100)
    assert.deepEqual(await typesOf(other.teamID), ['paused'])
  })
}
