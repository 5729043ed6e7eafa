/** Nothing is ended, deleted or forgotten because something failed for a moment or changed at the wrong time. */

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Fixture, gate, openFixture, request, turning, until } from '../../../test/support/domain.ts'
import { connectionLost, failTransitions } from '../../../test/support/store-faults.ts'
import { noAgent } from '../../drivers/driver-fixture.ts'
import { AppError } from '../../lib/app-error.ts'
import { openRules } from '../ports/egress.ts'
import type { SandboxOptions } from './row/sandbox.ts'

const pause = { memory: true, requireHealthyAgent: false }
const connect = { timeoutMs: 60_000, memory: true }

/** A running sandbox with something in its memory. */
async function running({ service, team, driver }: Fixture, changes: Partial<SandboxOptions> = {}) {
  const options = { ...request().options, ...changes }
  const { sandboxID } = await service.create(team, request({ options }))
  driver.world.sandboxes.get(sandboxID)!.memory.set('m', 'memory')
  return sandboxID
}

async function paused(fixture: Fixture): Promise<string> {
  const sandboxID = await running(fixture)
  await fixture.service.pause(fixture.team, sandboxID, pause)
  return sandboxID
}

const find = ({ stores }: Fixture, sandboxID: string) => stores.sandboxes.find(sandboxID)
const stateOf = async (fixture: Fixture, sandboxID: string) => (await find(fixture, sandboxID))?.state

async function resumesWithMemory(fixture: Fixture, sandboxID: string): Promise<void> {
  await fixture.service.connect(fixture.team, sandboxID, connect)
  assert.equal(fixture.driver.world.sandboxes.get(sandboxID)?.memory.get('m'), 'memory')
}

/** Lets the expiry look at what is due, with `meanwhile` between its look and its deed. */
async function expireWith({ clock, faults }: Fixture, meanwhile: () => Promise<void>): Promise<void> {
  const hasLooked = gate()
  let isFirst = true
  faults.after = async (method) => {
    if (method !== 'listExpired' || !isFirst) return
    isFirst = false
    await meanwhile()
    hasLooked.open()
  }
  clock.advance(60_000)
  await hasLooked.opened
  for (let round = 0; round < 100; round++) await new Promise((resolve) => setImmediate(resolve))
}

describe('a sandbox whose timeout is over', () => {
  it('keeps running if its timeout was extended at that moment', async () => {
    await using fixture = await openFixture()
    const sandboxID = await running(fixture)
    await expireWith(fixture, () => fixture.service.setTimeout(fixture.team, sandboxID, 3_600_000))
    assert.equal(await stateOf(fixture, sandboxID), 'running')
    assert.ok(fixture.driver.world.sandboxes.has(sandboxID))
  })

  it('is not paused if its timeout was extended at that moment', async () => {
    await using fixture = await openFixture()
    const sandboxID = await running(fixture, { autoPause: true })
    await expireWith(fixture, () => fixture.service.setTimeout(fixture.team, sandboxID, 3_600_000))
    assert.equal(await stateOf(fixture, sandboxID), 'running')
  })

  it('stays paused with its snapshot if it was paused at that moment', async () => {
    await using fixture = await openFixture()
    const sandboxID = await running(fixture)
    await expireWith(fixture, () => fixture.service.pause(fixture.team, sandboxID, pause))
    assert.equal(await stateOf(fixture, sandboxID), 'paused')
    await resumesWithMemory(fixture, sandboxID)
  })
})

describe('a pause whose end could not be written', () => {
  it('is retried and succeeds if the store fails for a moment', async () => {
    await using fixture = await openFixture()
    const sandboxID = await running(fixture)
    fixture.faults.before = failTransitions('paused', 3)
    await turning(fixture.clock, fixture.service.pause(fixture.team, sandboxID, pause))
    assert.equal(await stateOf(fixture, sandboxID), 'paused')
    await resumesWithMemory(fixture, sandboxID)
  })

  it('is recognized as done although its answer was lost', async () => {
    await using fixture = await openFixture()
    const sandboxID = await running(fixture)
    fixture.faults.after = failTransitions('paused', 1)
    await turning(fixture.clock, fixture.service.pause(fixture.team, sandboxID, pause))
    await resumesWithMemory(fixture, sandboxID)
  })

  for (const [what, error] of [
    ['is away for longer', connectionLost],
    ['refuses it', () => new AppError('internal', 'The database refused a statement.')],
  ] as const) {
    it(`is finished by the reconciler when the store ${what}`, async () => {
      await using fixture = await openFixture()
      const { service, team, clock, faults, reconciler } = fixture
      const sandboxID = await running(fixture)
      faults.before = failTransitions('paused', Number.POSITIVE_INFINITY, error)
      await assert.rejects(turning(clock, service.pause(team, sandboxID, pause)), /Nothing is lost/)
      assert.equal(await stateOf(fixture, sandboxID), 'pausing')
      await turning(clock, reconciler.run())
      assert.equal(await stateOf(fixture, sandboxID), 'pausing')
      faults.before = () => {}
      await reconciler.run()
      assert.equal(await stateOf(fixture, sandboxID), 'paused')
      await resumesWithMemory(fixture, sandboxID)
    })
  }

  it('is finished by the next process when this one crashed', async () => {
    await using before = await openFixture()
    const sandboxID = await running(before)
    before.faults.before = failTransitions('paused', Number.POSITIVE_INFINITY)
    await assert.rejects(turning(before.clock, before.service.pause(before.team, sandboxID, pause)))
    await using fixture = await before.again()
    await fixture.reconciler.run()
    assert.equal(await stateOf(fixture, sandboxID), 'paused')
    await resumesWithMemory(fixture, sandboxID)
  })
})

describe('a resume whose end could not be written', () => {
  it('keeps the sandbox running, and the reconciler finishes it', async () => {
    await using fixture = await openFixture()
    const { service, team, clock, faults, reconciler } = fixture
    const sandboxID = await paused(fixture)
    faults.before = failTransitions('running', Number.POSITIVE_INFINITY)
    await assert.rejects(turning(clock, service.connect(team, sandboxID, connect)), /Nothing is lost/)
    assert.equal(await stateOf(fixture, sandboxID), 'resuming')
    faults.before = () => {}
    await reconciler.run()
    assert.equal(await stateOf(fixture, sandboxID), 'running')
    assert.equal(fixture.driver.world.sandboxes.get(sandboxID)?.memory.get('m'), 'memory')
  })
})

describe('a resume of a frozen sandbox whose answer was lost', () => {
  it('does not leave a running sandbox as paused', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { service, team, driver, reconciler } = fixture
    const sandboxID = await paused(fixture)
    const thaw = driver.thaw.bind(driver)
    driver.thaw = async (handle) => {
      await thaw(handle)
      driver.thaw = thaw
      throw new AppError('unavailable', 'The answer of the runtime was lost.')
    }
    await assert.rejects(service.connect(team, sandboxID, connect), /answer of the runtime was lost/)
    await reconciler.run()
    assert.equal(await stateOf(fixture, sandboxID), 'running')
    await resumesWithMemory(fixture, sandboxID)
  })
})

describe('a sandbox that is frozen while the reconciler reads the rows', () => {
  it('stays frozen, and resumes with its memory', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { service, team, driver, reconciler, faults } = fixture
    const sandboxID = await running(fixture)
    let isFirst = true
    faults.after = async (method) => {
      if (method !== 'listUnended' || !isFirst) return
      isFirst = false
      await service.pause(team, sandboxID, pause)
    }
    await reconciler.run()
    assert.equal(driver.world.sandboxes.get(sandboxID)?.frozen, true)
    assert.equal(driver.world.snapshots.size, 1)
    await resumesWithMemory(fixture, sandboxID)
  })
})

describe('a sandbox that the driver cannot read', () => {
  it('stays paused if it was paused, and is logged once', async () => {
    await using fixture = await openFixture()
    const sandboxID = await paused(fixture)
    const { name } = (await find(fixture, sandboxID))!.snapshot!
    fixture.driver.world.unreadable.add(name)
    for (let round = 0; round < 3; round++) await fixture.reconciler.run()
    assert.equal(await stateOf(fixture, sandboxID), 'paused')
    const errors = fixture.logged.filter(({ level }) => level === 'error')
    assert.equal(errors.length, 1, JSON.stringify(errors))
    fixture.driver.world.unreadable.clear()
    await fixture.reconciler.run()
    await resumesWithMemory(fixture, sandboxID)
  })

  it('keeps running if it was running', async () => {
    await using fixture = await openFixture()
    const sandboxID = await running(fixture)
    fixture.driver.world.unreadable.add(sandboxID)
    await fixture.reconciler.run()
    assert.equal(await stateOf(fixture, sandboxID), 'running')
    fixture.driver.world.unreadable.clear()
    await fixture.reconciler.run()
    assert.equal(fixture.driver.world.sandboxes.get(sandboxID)?.running, true)
  })

  it('keeps the snapshot of a pause that was cut off', async () => {
    await using before = await openFixture()
    const sandboxID = await running(before)
    before.faults.before = failTransitions('paused', Number.POSITIVE_INFINITY)
    await assert.rejects(turning(before.clock, before.service.pause(before.team, sandboxID, pause)))
    await using fixture = await before.again()
    const [name] = fixture.driver.world.snapshots.keys()
    fixture.driver.world.unreadable.add(name!)
    await fixture.reconciler.run()
    assert.deepEqual([...fixture.driver.world.snapshots.keys()], [name])
    fixture.driver.world.unreadable.clear()
    await fixture.reconciler.run()
    await resumesWithMemory(fixture, sandboxID)
  })

  it('is not stopped, even if no row owns it', async () => {
    await using fixture = await openFixture()
    const { driver, clock, reconciler } = fixture
    const sizes = { cpuCount: 1, memoryMB: 128, diskMB: 64, egress: openRules }
    const { data } = await driver.start({
      sandboxID: 'iorphan',
      runID: 'r',
      rootFolder: '/root',
      agent: noAgent,
      ...sizes,
    })
    driver.world.unreadable.add(String(data.sandboxID))
    for (let round = 0; round < 10; round++) {
      clock.advance(60_000)
      await reconciler.run()
    }
    assert.equal(driver.world.sandboxes.get('iorphan')?.running, true)
  })
})

describe('a create', () => {
  it('neither fails nor waits if the use of its template cannot be counted', async () => {
    await using fixture = await openFixture()
    const { service, team, clock, stores } = fixture
    const record = stores.templates.recordCreates.bind(stores.templates)
    const hang = gate()
    let tries = 0
    stores.templates.recordCreates = async (...args) => {
      if (++tries === 1) throw connectionLost()
      await hang.opened
      return record(...args)
    }
    assert.equal((await service.create(team, request())).state, 'running')
    clock.advance(250)
    await until(async () => tries === 1)
    assert.equal((await service.create(team, request())).state, 'running')
    hang.open()
    await turning(
      clock,
      until(async () => (await stores.templates.findByID('basetemplate'))?.spawnCount === 2),
    )
  })

  it('continues if the store fails for a moment, even after it inserted the row', async () => {
    await using fixture = await openFixture()
    const { service, team, clock, faults } = fixture
    let isFirst = true
    faults.after = (method) => {
      if (method !== 'insertWithinLimits' || !isFirst) return
      isFirst = false
      throw connectionLost()
    }
    faults.before = failTransitions('running', 2)
    const sandbox = await turning(clock, service.create(team, request()))
    assert.equal(await stateOf(fixture, sandbox.sandboxID), 'running')
  })

  it('keeps the cause of its failure although the started sandbox cannot be stopped, and row and sandbox are ended later', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, agent, stores, reconciler } = fixture
    agent.fail = new AppError('deadline_exceeded', 'no agent came up')
    driver.beforeStopped = async () => {
      throw new Error('it does not die')
    }
    await assert.rejects(service.create(team, request()), /no agent came up/)
    assert.equal((await stores.sandboxes.listUnended()).length, 1)
    driver.beforeStopped = async () => {}
    await reconciler.run()
    assert.deepEqual(await stores.sandboxes.listUnended(), [])
    assert.deepEqual(await driver.list(), [])
  })
})

describe('a kill', () => {
  it('during a pause does not wait for an agent that does not answer', async () => {
    await using fixture = await openFixture()
    const { service, team, agent } = fixture
    const sandboxID = await running(fixture)
    const asked = gate()
    agent.isHealthy = (_, { signal } = {}) => {
      asked.open()
      return new Promise((resolve) => signal?.addEventListener('abort', () => resolve(false)))
    }
    const pausing = assert.rejects(service.pause(team, sandboxID, pause), /killed while it was being paused/)
    await asked.opened
    await service.kill(team, sandboxID)
    await pausing
    assert.equal(await stateOf(fixture, sandboxID), 'ended')
  })

  it('keeps its reason when it is cut off and another process ends it', async () => {
    await using before = await openFixture()
    const sandboxID = await running(before)
    before.driver.beforeStopped = async () => {
      throw new Error('it does not die')
    }
    before.clock.advance(60_000)
    await until(async () => (await stateOf(before, sandboxID)) === 'killing')
    await using fixture = await before.again()
    await fixture.reconciler.run()
    assert.equal((await find(fixture, sandboxID))?.endReason, 'timeout')
  })
})

describe('two Warrens on one database', () => {
  it("leave each other's sandboxes alone", async () => {
    await using one = await openFixture({ nodeID: 'one' })
    await using other = await openFixture({ nodeID: 'other', folder: one.folder, clock: one.clock })
    const [runningOne, pausedOne] = [await running(one), await paused(one)]
    await other.upkeep.armExpiry()
    await other.reconciler.run()
    assert.equal(await stateOf(one, runningOne), 'running')
    assert.equal(await stateOf(one, pausedOne), 'paused')
    assert.deepEqual(await other.quarantine.list(), [])
    await assert.rejects(other.service.kill(other.team, runningOne), /doesn't exist/)
    await one.service.close()
    one.clock.advance(3_600_000)
    for (let round = 0; round < 100; round++) await new Promise((resolve) => setImmediate(resolve))
    assert.equal(await stateOf(one, runningOne), 'running', 'its end is for its own Warren to bring')
  })
})
