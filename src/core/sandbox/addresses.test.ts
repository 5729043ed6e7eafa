/** An address goes from one sandbox to the next. What led to the earlier one must be gone by then, and stay gone. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { addTeam, type Fixture, openFixture, request, turning } from '../../../test/support/domain.ts'
import { failTransitions } from '../../../test/support/store-faults.ts'
import type { DriverHandle } from '../ports/driver.ts'

const pause = { memory: true, requireHealthyAgent: false }
const throughGate = () =>
  request({ options: { ...request().options, network: { allowOut: ['x.example'], denyOut: ['0.0.0.0/0'] } } })

/** Ends the row of a sandbox and leaves its processes, as a node does that was forgotten while it lived. */
async function endRow({ stores }: Fixture, sandboxID: string, endReason: 'lost' | 'killed') {
  const { runID, state } = (await stores.sandboxes.find(sandboxID))!
  await stores.sandboxes.transition({ sandboxID, runID, from: [state] }, 'killing')
  await stores.sandboxes.transition({ sandboxID, runID, from: ['killing'] }, 'ended', {
    endedAt: 1,
    endReason,
  })
}

/** Records what leads to a sandbox when its address becomes free. */
function watchFreed({ driver, routes, gate }: Fixture): string[] {
  const seen: string[] = []
  const { sandboxes } = driver.world
  const remove = sandboxes.delete.bind(sandboxes)
  sandboxes.delete = (sandboxID) => {
    const address = String(sandboxes.get(sandboxID)?.handle.data.address)
    if (routes.get(sandboxID)?.endpoint(0).host === address) seen.push('route')
    if (gate.clients.has(address)) seen.push('gate')
    return remove(sandboxID)
  }
  return seen
}

const addressOf = (handle: DriverHandle | null | undefined) => String(handle?.data.address)

describe('no route and no entry of the gate leads to an address that a sandbox has given back', () => {
  for (const endReason of ['lost', 'killed'] as const) {
    it(`if it ran on after its row had ended (${endReason})`, async () => {
      await using fixture = await openFixture()
      const { service, team, reconciler, driver, routes } = fixture
      const { sandboxID } = await service.create(team, throughGate())
      const seen = watchFreed(fixture)
      await endRow(fixture, sandboxID, endReason)
      await reconciler.run()
      assert.equal(driver.world.sandboxes.has(sandboxID), false)
      assert.deepEqual([seen, routes.get(sandboxID)], [[], undefined])
    })
  }

  it('if it was resumed in place, so that the driver knows it by its first run', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { service, team, reconciler, driver, routes } = fixture
    const { sandboxID } = await service.create(team, throughGate())
    await service.pause(team, sandboxID, pause)
    await service.connect(team, sandboxID, { timeoutMs: 60_000, memory: true })
    const seen = watchFreed(fixture)
    await endRow(fixture, sandboxID, 'killed')
    await reconciler.run()
    assert.equal(driver.world.sandboxes.has(sandboxID), false)
    assert.deepEqual([seen, routes.get(sandboxID)], [[], undefined])
  })

  it('if its team kills it, or pauses it', async () => {
    await using fixture = await openFixture()
    const { service, team } = fixture
    const seen = watchFreed(fixture)
    await service.kill(team, (await service.create(team, throughGate())).sandboxID)
    await service.pause(team, (await service.create(team, throughGate())).sandboxID, pause)
    assert.deepEqual(seen, [])
  })
})

it('an end that is finished late takes nothing from the sandbox that has the address by now', async () => {
  await using fixture = await openFixture()
  const { service, team, stores, faults, reconciler, gate, clock } = fixture
  const first = await service.create(team, throughGate())
  faults.before = failTransitions('ended')
  await assert.rejects(turning(clock, service.kill(team, first.sandboxID)))
  faults.before = () => {}
  assert.equal((await stores.sandboxes.find(first.sandboxID))?.state, 'killing')
  const next = await service.create(await addTeam(fixture, 'beta'), throughGate())
  assert.equal(addressOf(next.handle), addressOf(first.handle))
  await reconciler.run()
  assert.equal(gate.clients.get(addressOf(next.handle))?.sandboxID, next.sandboxID)
})
