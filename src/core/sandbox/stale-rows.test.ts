/** Nobody acts on what was true a moment ago, nor takes a lost answer for a step that did not happen. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  addTeam,
  type Fixture,
  gate,
  openFixture,
  request,
  turning,
  until,
} from '../../../test/support/domain.ts'
import { connectionLost } from '../../../test/support/store-faults.ts'
import { AppError } from '../../lib/app-error.ts'
import type { SandboxOptions } from './row/sandbox.ts'

const pause = { memory: true, requireHealthyAgent: false }
const connect = { timeoutMs: 600_000, memory: true }
const closed = { allowInternetAccess: false }

const withOptions = (options: Partial<SandboxOptions>, timeoutMs = 60_000) =>
  request({ timeoutMs, options: { ...request().options, ...options } })

const stateOf = async ({ stores }: Fixture, sandboxID: string) =>
  (await stores.sandboxes.find(sandboxID))?.state

const inWorld = ({ driver }: Fixture, sandboxID: string) => driver.world.sandboxes.get(sandboxID)

const isClosed = (fixture: Fixture, sandboxID: string) =>
  JSON.stringify(inWorld(fixture, sandboxID)?.spec.egress).includes('0.0.0.0/0')

/** With a sandbox of the base template that waits in the warm pool. */
async function withWarm(): Promise<Fixture> {
  const fixture = await openFixture({ warm: 1 })
  const { warm, catalog, team, clock } = fixture
  warm.keepReady((await catalog.resolve(team, 'base')).build)
  clock.advance(1000)
  await until(async () => warm.count().ready === 1)
  return fixture
}

/** Rejects inserts, which take effect or not, until it is called. */
function loseInserts({ faults }: Fixture, takesEffect: boolean): () => void {
  const fail = (method: string) => {
    if (method === 'insertWithinLimits' || method === 'find') throw connectionLost()
  }
  if (takesEffect) {
    faults.after = fail
    faults.before = (method) => {
      if (method === 'find') throw connectionLost()
    }
  } else faults.before = fail
  return () => {
    faults.after = () => {}
    faults.before = () => {}
  }
}

describe('a create whose insert gets no answer until its retries end', () => {
  for (const takesEffect of [true, false]) {
    it(`never gives its warm sandbox to another team, ${takesEffect ? 'with' : 'without'} a row`, async () => {
      await using fixture = await withWarm()
      const { service, team, driver, clock, reconciler, faults, stores } = fixture
      const other = await addTeam(fixture, 'beta')
      const [pooled] = [...driver.world.sandboxes.keys()]
      const isBack = loseInserts(fixture, takesEffect)
      await assert.rejects(turning(clock, service.create(team, request())), /cannot be reached/)
      isBack()
      // Those after it are not answered at first, so that they look whether their row is there.
      for (let count = 0; count < 2; count++) {
        faults.before = (method) => {
          if (method !== 'insertWithinLimits') return
          faults.before = () => {}
          throw connectionLost()
        }
        const theirs = await turning(clock, service.create(other, request()))
        assert.notEqual(theirs.sandboxID, pooled)
        assert.equal((await stores.sandboxes.find(theirs.sandboxID))?.teamID, other.teamID)
      }
      await reconciler.run()
      assert.equal(inWorld(fixture, pooled!), undefined)
      assert.notEqual(await stateOf(fixture, pooled!), 'creating')
    })
  }

  it('does not make later creates fail', async () => {
    await using fixture = await withWarm()
    const { service, team, clock } = fixture
    const isBack = loseInserts(fixture, true)
    await assert.rejects(turning(clock, service.create(team, request())))
    isBack()
    for (let count = 0; count < 2; count++) await turning(clock, service.create(team, request()))
  })

  it('returns the warm sandbox to the pool if the database says that there is no row', async () => {
    await using fixture = await withWarm()
    const { service, team, driver, warm } = fixture
    const [pooled] = [...driver.world.sandboxes.keys()]
    const narrow = { ...team, limits: { ...team.limits, maxSandboxes: 0 } }
    await assert.rejects(service.create(narrow, request()), /reached/)
    assert.equal(warm.count().ready, 1)
    assert.equal((await service.create(team, request())).sandboxID, pooled)
  })

  it('is recognized by its team, run and time, and not by its id alone', async () => {
    await using fixture = await openFixture()
    const { service, team, faults, clock, stores } = fixture
    let tries = 0
    faults.after = (method) => {
      if (method === 'insertWithinLimits' && tries++ === 0) throw connectionLost()
    }
    const made = await turning(clock, service.create(team, request()))
    assert.equal(tries, 1)
    assert.equal((await stores.sandboxes.find(made.sandboxID))?.state, 'running')
  })

  it('is not ended by a round of the reconciler while it is retried', async () => {
    await using fixture = await openFixture()
    const { service, team, faults, clock, reconciler } = fixture
    const isLost = gate()
    faults.after = (method) => {
      if (method !== 'insertWithinLimits') return
      faults.after = () => {}
      isLost.open()
      throw connectionLost()
    }
    const created = service.create(team, request())
    await isLost.opened
    await reconciler.run()
    const { sandboxID } = await turning(clock, created)
    assert.equal(await stateOf(fixture, sandboxID), 'running')
  })
})

/** Runs `meanwhile` between the reconciler's look at the rows and its turns. */
async function reconcileWith({ faults, reconciler }: Fixture, meanwhile: () => Promise<void>): Promise<void> {
  faults.after = async (method) => {
    if (method !== 'listUnended') return
    faults.after = () => {}
    await meanwhile()
  }
  await reconciler.run()
}

describe('a round of the reconciler', () => {
  it('leaves a sandbox paused that was resumed and paused again after the round listed it as resuming', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { service, team, driver, stores, faults } = fixture
    const { sandboxID } = await service.create(team, request())
    await service.pause(team, sandboxID, pause)
    const thaw = driver.thaw.bind(driver)
    const isThawing = gate()
    const mayThaw = gate()
    driver.thaw = async (...given) => {
      isThawing.open()
      await mayThaw.opened
      return thaw(...given)
    }
    const resumed = service.connect(team, sandboxID, connect)
    await isThawing.opened
    assert.equal(await stateOf(fixture, sandboxID), 'resuming')
    await reconcileWith(fixture, async () => {
      mayThaw.open()
      await resumed
      await service.pause(team, sandboxID, pause)
    })
    const row = await stores.sandboxes.find(sandboxID)
    assert.equal(row?.state, 'paused')
    assert.equal(inWorld(fixture, sandboxID)?.frozen, true)
    assert.ok(driver.world.snapshots.has(row.snapshot!.name))
    faults.after = () => {}
  })

  it('makes a pause wait while it repairs the previous pause, and costs no snapshot', async () => {
    await using before = await openFixture()
    const { sandboxID } = await before.service.create(before.team, request())
    // The process stops in the middle of a snapshot, which is never completed.
    before.driver.beforeSnapshot = () => new Promise(() => {})
    void before.service.pause(before.team, sandboxID, pause).catch(() => {})
    await until(async () => (await stateOf(before, sandboxID)) === 'pausing')
    await using fixture = await before.again()
    const { service, team, driver, reconciler, stores } = fixture
    const isRemoving = gate()
    const mayRemove = gate()
    const remove = driver.removeSnapshot.bind(driver)
    driver.removeSnapshot = async (name) => {
      isRemoving.open()
      await mayRemove.opened
      return remove(name)
    }
    const round = reconciler.run()
    await isRemoving.opened
    const second = service.pause(team, sandboxID, pause)
    mayRemove.open()
    await Promise.all([round, second])
    const row = await stores.sandboxes.find(sandboxID)
    assert.equal(row?.state, 'paused')
    assert.ok(driver.world.snapshots.has(row.snapshot!.name))
    await reconciler.run()
    assert.equal(await stateOf(fixture, sandboxID), 'paused')
  })

  it('applies the policy that a client sets after the rows were listed, and no older one', async () => {
    await using before = await openFixture()
    const { sandboxID } = await before.service.create(before.team, request())
    await using fixture = await before.again()
    await reconcileWith(fixture, () => fixture.service.setNetwork(fixture.team, sandboxID, closed))
    assert.equal(isClosed(fixture, sandboxID), true)
    assert.ok(fixture.routes.get(sandboxID))
  })

  it('opens no route for a sandbox that is paused while its policy is applied', async () => {
    await using before = await openFixture()
    const { sandboxID } = await before.service.create(before.team, request())
    await using fixture = await before.again()
    const { service, team, driver, reconciler, routes } = fixture
    const isApplying = gate()
    const mayApply = gate()
    driver.beforeLimited = async () => {
      isApplying.open()
      await mayApply.opened
    }
    const round = reconciler.run()
    await isApplying.opened
    const paused = service.pause(team, sandboxID, pause)
    for (let round = 0; round < 200; round++) await new Promise((resolve) => setImmediate(resolve))
    mayApply.open()
    await Promise.all([round, paused])
    assert.equal(await stateOf(fixture, sandboxID), 'paused')
    assert.equal(routes.get(sandboxID), undefined)
  })

  it('freezes a sandbox again that runs although its row says paused', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { service, team, driver, stores, reconciler } = fixture
    const { sandboxID } = await service.create(team, request())
    await service.pause(team, sandboxID, pause)
    const row = (await stores.sandboxes.find(sandboxID))!
    await driver.thaw(row.handle!)
    assert.equal(driver.world.snapshots.size, 0)
    await reconciler.run()
    assert.equal(inWorld(fixture, sandboxID)?.frozen, true)
    assert.ok(driver.world.snapshots.has(row.snapshot!.name))
  })
})

describe('an egress policy that the driver could not apply', () => {
  const refused = async () => {
    throw new AppError('unavailable', 'The rules could not be changed; try again.')
  }

  it('is applied by the next round', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, reconciler } = fixture
    const { sandboxID } = await service.create(team, request())
    driver.beforeLimited = refused
    await assert.rejects(service.setNetwork(team, sandboxID, closed), /could not be changed/)
    assert.equal(isClosed(fixture, sandboxID), false)
    driver.beforeLimited = async () => {}
    await reconciler.run()
    assert.equal(isClosed(fixture, sandboxID), true)
  })

  it('is applied before a frozen sandbox is thawed', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { service, team, driver } = fixture
    const { sandboxID } = await service.create(team, request())
    driver.beforeLimited = refused
    await assert.rejects(service.setNetwork(team, sandboxID, closed))
    await service.pause(team, sandboxID, pause)
    const resumed = await service.connect(team, sandboxID, connect).catch((error: Error) => error)
    assert.match(String(resumed), /could not be resumed and is still paused/)
    assert.equal(inWorld(fixture, sandboxID)?.frozen, true)
    driver.beforeLimited = async () => {}
    await service.connect(team, sandboxID, connect)
    assert.equal(isClosed(fixture, sandboxID), true)
  })

  it('is not applied again if it is known to hold', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { service, team, driver, reconciler } = fixture
    const { sandboxID } = await service.create(team, withOptions(closed))
    driver.beforeLimited = async () => assert.fail('the rules held already')
    await service.pause(team, sandboxID, pause)
    await service.connect(team, sandboxID, connect)
    await reconciler.run()
    assert.equal(await stateOf(fixture, sandboxID), 'running')
  })
})

describe('at the end of its timeout', () => {
  it('a sandbox is killed although many others wait to be paused, and the waiting ones are not polled all the time', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, clock, faults } = fixture
    const wide = { ...team, limits: { ...team.limits, maxSandboxes: 100, maxCPU: 1000 } }
    const mayPause = gate()
    driver.beforeSnapshot = () => mayPause.opened
    for (let count = 0; count < 60; count++)
      await service.create(wide, withOptions({ autoPause: true }, 10_000))
    const { sandboxID } = await service.create(wide, request({ timeoutMs: 11_000 }))
    let looks = 0
    faults.before = (method) => {
      if (method === 'listExpired') looks++
    }
    for (let round = 0; round < 2000; round++) {
      if (round % 100 === 0) clock.advance(1000)
      await new Promise((resolve) => setImmediate(resolve))
    }
    assert.equal(await stateOf(fixture, sandboxID), 'ended')
    assert.ok(looks < 60, `${looks} looks in 20 s`)
    mayPause.open()
    await until(async () => {
      clock.advance(100)
      return (await fixture.stores.sandboxes.listUnended(['running'])).length === 0
    })
  })

  it('a sandbox that takes long to stop does not delay the end of another', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, clock } = fixture
    const { sandboxID: slow } = await service.create(team, request({ timeoutMs: 10_000 }))
    const { sandboxID: next } = await service.create(team, request({ timeoutMs: 12_000 }))
    const mayStop = gate()
    driver.beforeStopped = async ({ data }) => {
      if (data.sandboxID === slow) await mayStop.opened
    }
    clock.advance(10_000)
    await until(async () => (await stateOf(fixture, slow)) === 'killing')
    clock.advance(2000)
    await until(async () => {
      clock.advance(50)
      return (await stateOf(fixture, next)) === 'ended'
    })
    mayStop.open()
    await until(async () => (await stateOf(fixture, slow)) === 'ended')
  })
})

it('a death that is reported during an operation ends the sandbox with its reason', async () => {
  await using fixture = await openFixture()
  const { service, team, driver, stores } = fixture
  const { sandboxID } = await service.create(team, request())
  const isLimiting = gate()
  const mayLimit = gate()
  driver.beforeLimited = async () => {
    isLimiting.open()
    await mayLimit.opened
  }
  const first = service.setNetwork(team, sandboxID, closed)
  await isLimiting.opened
  const second = service.setNetwork(team, sandboxID, closed)
  driver.crash(sandboxID, { reason: 'out_of_memory' })
  mayLimit.open()
  await Promise.allSettled([first, second])
  await until(async () => (await stateOf(fixture, sandboxID)) === 'ended')
  assert.equal((await stores.sandboxes.find(sandboxID))?.endReason, 'out_of_memory')
})
