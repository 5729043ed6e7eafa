import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openFixture, request, turning } from '../../../test/support/domain.ts'
import { connectionLost } from '../../../test/support/store-faults.ts'
import { newUUID } from '../../lib/ids.ts'

const page = { order: 'asc', offset: 0, limit: 100 } as const

describe('a change whose answer from the store is lost', () => {
  it('gets one event', async () => {
    await using fixture = await openFixture()
    const { service, team, clock, faults, stores } = fixture
    const { sandboxID } = await service.create(team, request())
    let losses = 2
    faults.after = (method) => {
      if (method === 'setEnd' || method === 'transition') if (losses-- > 0) throw connectionLost()
    }
    await turning(clock, service.setTimeout(team, sandboxID, 30_000))
    losses = 1
    await turning(clock, service.kill(team, sandboxID))
    const events = await stores.events.list({ teamID: team.teamID }, page)
    assert.deepEqual(
      events.map(({ number, type }) => [number, type]),
      [
        [1, 'created'],
        [2, 'updated'],
        [3, 'killed'],
      ],
    )
  })

  it('gets another event under another id, if it is made again because others changed the row in between', async () => {
    await using fixture = await openFixture()
    const { service, team, clock, faults, stores } = fixture
    const { sandboxID, runID } = await service.create(team, request())
    let losses = 1
    faults.after = async (method) => {
      if (method !== 'setEnd' || losses-- <= 0) return
      const named = { transitionID: newUUID(), at: clock.now() }
      await stores.sandboxes.setEnd({ sandboxID, runID }, clock.now() + 50_000, false, named)
      throw connectionLost()
    }
    await turning(clock, service.setTimeout(team, sandboxID, 30_000))
    const events = await stores.events.list({ teamID: team.teamID, sandboxID }, page)
    assert.deepEqual(
      events.map(({ number }) => number),
      [1, 2, 3, 4],
    )
    assert.equal(new Set(events.map(({ eventID }) => eventID)).size, 4)
    const ends = events.slice(1).map(({ data }) => data.set_timeout)
    assert.ok(String(ends[2]) < String(ends[1]), 'what the client asked for last')
  })
})
