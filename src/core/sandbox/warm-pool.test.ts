import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openFixture, request } from '../../../test/support/domain.ts'

type Opened = Awaited<ReturnType<typeof openFixture>>

/** The pool fills behind everybody's back; the fake driver needs only a few turns of the event loop for it. */
async function poolHas({ driver, clock }: Opened, count: number): Promise<void> {
  clock.advance(1000)
  for (let round = 0; round < 1000 && (await driver.list()).length !== count; round++) {
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.equal((await driver.list()).length, count)
}

describe('sandboxes started ahead', () => {
  it('are handed out with their id, and others are started in their place', async () => {
    await using fixture = await openFixture({ warm: 2 })
    const { service, team, driver } = fixture
    await service.create(team, request())
    await poolHas(fixture, 3)
    const waiting = new Set((await driver.list()).map(({ sandboxID }) => sandboxID))
    const second = await service.create(team, request())
    assert.ok(waiting.has(second.sandboxID))
    assert.equal(second.state, 'running')
    await poolHas(fixture, 4)
  })

  it('fit only a create of the same kind', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { service, team, driver, roots } = fixture
    await service.create(team, request())
    await poolHas(fixture, 2)
    const waiting = new Set((await driver.list()).map(({ sandboxID }) => sandboxID))
    driver.world.prepared.add('/other')
    roots.folder = '/other'
    const other = await service.create(team, request())
    assert.ok(!waiting.has(other.sandboxID))
  })

  it('are held to what their owner said before the agent hears of it', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { service, team, driver, agent } = fixture
    await service.create(team, request())
    await poolHas(fixture, 2)
    const waiting = new Set((await driver.list()).map(({ sandboxID }) => sandboxID))
    driver.beforeLimited = async () => assert.equal(agent.initialized.length, 1)
    const options = { ...request().options, allowInternetAccess: false }
    const closed = await service.create(team, request({ options }))
    assert.ok(waiting.has(closed.sandboxID))
    const { egress } = driver.world.sandboxes.get(closed.sandboxID)!.spec
    assert.deepEqual(egress, { allow: [], deny: ['0.0.0.0/0'], toGate: 'none' })
  })

  it('are put back when the create is refused', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { service, team, warm, driver } = fixture
    await service.create(team, request())
    await poolHas(fixture, 2)
    const poor = { ...team, limits: { ...team.limits, maxSandboxes: 1 } }
    await assert.rejects(service.create(poor, request()), /maximum number/)
    const next = await service.create(team, request())
    assert.equal(warm.holds(next.sandboxID), false)
    assert.ok((await driver.list()).some(({ sandboxID }) => sandboxID === next.sandboxID))
  })

  it('that died in waiting are passed over', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { service, team, driver } = fixture
    const first = await service.create(team, request())
    await poolHas(fixture, 2)
    const dead = (await driver.list()).find(({ sandboxID }) => sandboxID !== first.sandboxID)!
    driver.crash(dead.sandboxID)
    const second = await service.create(team, request())
    assert.notEqual(second.sandboxID, dead.sandboxID)
    assert.equal(second.state, 'running')
  })

  it('are left alone by the reconciler of their own process, and removed by that of the next', async () => {
    await using before = await openFixture({ warm: 1 })
    const { sandboxID } = await before.service.create(before.team, request({ timeoutMs: 3_600_000 }))
    await poolHas(before, 2)
    await before.reconciler.run()
    assert.equal((await before.driver.list()).length, 2)
    await using fixture = await before.again()
    await fixture.reconciler.run()
    assert.deepEqual(
      (await fixture.driver.list()).map((found) => found.sandboxID),
      [sandboxID],
    )
  })

  it('are not taken for disposable once they have an owner', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { service, team, driver } = fixture
    await service.create(team, request())
    await poolHas(fixture, 2)
    const isDisposable = () =>
      [...driver.world.sandboxes.values()].map(({ spec }) => spec.disposable === true)
    assert.deepEqual(isDisposable(), [false, true])
    await service.create(team, request())
    assert.deepEqual(isDisposable().slice(0, 2), [false, false])
  })

  it('are stopped when Warren closes, and sandboxes in use are not', async () => {
    await using fixture = await openFixture({ warm: 2 })
    const { service, team, warm, driver } = fixture
    const { sandboxID } = await service.create(team, request())
    await poolHas(fixture, 3)
    await warm.close()
    assert.deepEqual(
      (await driver.list()).map((found) => found.sandboxID),
      [sandboxID],
    )
  })

  it('that cannot be started fail no create', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { service, team, driver, clock } = fixture
    await service.create(team, request())
    const failed = new Promise<void>((resolve) => {
      driver.beforeStarted = async () => {
        driver.beforeStarted = async () => {}
        resolve()
        throw new Error('no more')
      }
    })
    clock.advance(1000)
    await failed
    const second = await service.create(team, request())
    assert.equal(second.state, 'running')
  })
})
