import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Fixture, failsWith, gate, openFixture, until } from '../../../../test/support/domain.ts'
import {
  contentOf,
  running,
  startNextRun,
  stateOf,
  timed,
  wish,
} from '../../../../test/support/pausable-sandbox.ts'
import { AppError } from '../../../lib/app-error.ts'

for (const snapshotMemory of [true, false]) {
  describe(snapshotMemory ? 'a driver that saves memory' : 'a driver that freezes', () => {
    it('pauses, and connect brings everything back in a new run', async () => {
      await using fixture = await openFixture({ snapshotMemory })
      const { service, team, routes, clock, driver } = fixture
      const sandboxID = await running(fixture)
      const { runID } = await service.get(team, sandboxID)
      clock.advance(1000)
      await service.pause(team, sandboxID, wish)
      const paused = await service.get(team, sandboxID)
      assert.deepEqual([paused.state, paused.endAt], ['paused', clock.now()])
      assert.deepEqual([paused.snapshot?.memory, paused.snapshot?.frozen], [true, !snapshotMemory])
      assert.equal(routes.get(sandboxID), undefined)
      assert.equal(driver.world.sandboxes.has(sandboxID), !snapshotMemory)
      clock.advance(3_600_000)
      const { sandbox, resumed } = await service.connect(team, sandboxID, timed)
      assert.equal(resumed, true)
      assert.equal(sandbox.endAt, clock.now() + 60_000)
      assert.equal(sandbox.startedAt, clock.now())
      assert.equal(sandbox.snapshot, null)
      assert.notEqual(sandbox.runID, runID)
      assert.equal(routes.get(sandboxID)?.runID, sandbox.runID)
      assert.deepEqual(contentOf(fixture, sandboxID), ['memory', 'file'])
      assert.equal(driver.world.snapshots.size, 0)
    })

    it('is paused once by pauses at the same time, and resumed once by resumes, and all succeed', async () => {
      await using fixture = await openFixture({ snapshotMemory })
      const { service, team } = fixture
      const sandboxID = await running(fixture)
      await Promise.all([1, 2, 3].map(() => service.pause(team, sandboxID, wish)))
      assert.equal(await stateOf(fixture, sandboxID), 'paused')
      await assert.rejects(service.pause(team, sandboxID, wish), failsWith('conflict'))
      const resumed = await Promise.all([1, 2, 3].map(() => service.resume(team, sandboxID, timed)))
      assert.deepEqual(new Set(resumed.map(({ state }) => state)), new Set(['running']))
      assert.equal(new Set(resumed.map(({ runID }) => runID)).size, 1)
      await assert.rejects(service.resume(team, sandboxID, timed), failsWith('conflict'))
      assert.deepEqual(contentOf(fixture, sandboxID), ['memory', 'file'])
      const wishes = [wish, { ...wish, memory: false }]
      const both = await Promise.allSettled(wishes.map((one) => service.pause(team, sandboxID, one)))
      assert.deepEqual(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
    })

    it('pauses without memory, and boots anew', async () => {
      await using fixture = await openFixture({ snapshotMemory })
      const { service, team, driver } = fixture
      const sandboxID = await running(fixture)
      await service.pause(team, sandboxID, { ...wish, memory: false })
      assert.equal((await service.get(team, sandboxID)).snapshot?.memory, false)
      assert.equal(driver.world.sandboxes.size, 0)
      await service.connect(team, sandboxID, timed)
      assert.deepEqual(contentOf(fixture, sandboxID), [undefined, 'file'])
    })

    it('boots from the files if memory is not wanted, although the snapshot has it', async () => {
      await using fixture = await openFixture({ snapshotMemory })
      const { service, team, driver } = fixture
      const sandboxID = await running(fixture)
      await service.pause(team, sandboxID, wish)
      await service.connect(team, sandboxID, { ...timed, memory: false })
      assert.deepEqual(contentOf(fixture, sandboxID), [undefined, 'file'])
      assert.equal(driver.world.snapshots.size, 0)
    })

    it('kills a paused sandbox and removes its snapshot', async () => {
      await using fixture = await openFixture({ snapshotMemory })
      const { service, team, driver } = fixture
      const sandboxID = await running(fixture)
      await service.pause(team, sandboxID, wish)
      await service.kill(team, sandboxID)
      assert.equal(driver.world.snapshots.size + driver.world.sandboxes.size, 0)
      await assert.rejects(service.kill(team, sandboxID), failsWith('not_found'))
      await assert.rejects(service.connect(team, sandboxID, timed), failsWith('not_found'))
    })

    it('is not found by a resume while it is killed, and a connect gets the reason', async () => {
      await using fixture = await openFixture({ snapshotMemory })
      const { service, team, stores, faults } = fixture
      const sandboxID = await running(fixture)
      await service.pause(team, sandboxID, wish)
      const blocked = gate()
      faults.before = async (method, [, to]) => {
        if (method === 'transition' && to === 'ended') await blocked.opened
      }
      const killed = service.kill(team, sandboxID)
      await until(async () => (await stores.sandboxes.find(sandboxID))?.state === 'killing')
      await assert.rejects(service.resume(team, sandboxID, timed), failsWith('not_found'))
      await assert.rejects(service.connect(team, sandboxID, timed), failsWith('conflict'))
      blocked.open()
      await killed
    })

    it('keeps running if no snapshot can be taken', async () => {
      await using fixture = await openFixture({ snapshotMemory })
      const { service, team, driver, routes } = fixture
      const sandboxID = await running(fixture)
      driver.beforeSnapshot = async () => {
        throw new AppError('no_space', 'the disk is full')
      }
      await assert.rejects(service.pause(team, sandboxID, wish), failsWith('no_space'))
      assert.equal(await stateOf(fixture, sandboxID), 'running')
      assert.ok(routes.get(sandboxID))
      assert.deepEqual(contentOf(fixture, sandboxID), ['memory', 'file'])
    })

    it('is repaired after a crash at any point of a pause', async () => {
      for (const point of ['before', 'after'] as const) {
        await using fixture = await openFixture({ snapshotMemory })
        const { service, team, driver, stores } = fixture
        const sandboxID = await running(fixture)
        const { runID, handle } = await service.get(team, sandboxID)
        await stores.sandboxes.transition({ sandboxID, runID, from: ['running'] }, 'pausing')
        if (point === 'after') {
          const afterwards = snapshotMemory ? 'end' : 'stay-frozen'
          await driver.takeSnapshot(handle!, `${sandboxID}-${runID}`, {
            memory: snapshotMemory,
            afterwards,
            lasting: true,
          })
        } else await driver.freeze(handle!)
        await using next = await fixture.again()
        await next.reconciler.run()
        assert.equal(await stateOf(next, sandboxID), point === 'after' ? 'paused' : 'running', point)
        await next.service.connect(team, sandboxID, timed)
        assert.deepEqual(contentOf(next, sandboxID), ['memory', 'file'], point)
        assert.equal(next.driver.world.snapshots.size, 0)
      }
    })

    it('is repaired after a crash at any point of a resume', async () => {
      for (const point of ['before', 'after'] as const) {
        await using fixture = await openFixture({ snapshotMemory })
        const { service, team, driver, stores } = fixture
        const sandboxID = await running(fixture)
        await service.pause(team, sandboxID, wish)
        const paused = await service.get(team, sandboxID)
        const { snapshot, handle } = paused
        const changes = { runID: 'next', startedAt: 1, endAt: 60_001 }
        await stores.sandboxes.resumeWithinLimits(paused, team.limits, changes)
        if (point === 'after') {
          if (handle) await driver.thaw(handle)
          else await startNextRun(fixture, sandboxID, snapshot!.name)
        }
        await using next = await fixture.again()
        await next.reconciler.run()
        if (point === 'before' && snapshotMemory) assert.equal(await stateOf(next, sandboxID), 'paused')
        else assert.equal(await stateOf(next, sandboxID), 'running')
        await next.service.connect(team, sandboxID, timed)
        assert.deepEqual(contentOf(next, sandboxID), ['memory', 'file'], point)
        assert.equal(next.driver.world.snapshots.size, 0)
      }
    })

    it('survives a reboot of the machine with everything that was on the disk', async () => {
      await using fixture = await openFixture({ snapshotMemory })
      const { service, team, driver } = fixture
      const sandboxID = await running(fixture)
      await service.pause(team, sandboxID, wish)
      driver.loseEverything()
      await using next = await fixture.again()
      await next.reconciler.run()
      assert.equal((await next.service.get(team, sandboxID)).snapshot?.memory, snapshotMemory)
      await next.service.connect(team, sandboxID, timed)
      assert.deepEqual(contentOf(next, sandboxID), [snapshotMemory ? 'memory' : undefined, 'file'])
      assert.equal(
        next.events.some((line) => line.includes('memory of the paused sandbox is lost')),
        !snapshotMemory,
      )
    })
  })
}

/** A pause whose snapshot is not taken before `saving` is opened. */
async function pausing(fixture: Fixture) {
  const sandboxID = await running(fixture)
  const saving = gate()
  fixture.driver.beforeSnapshot = () => saving.opened
  const pause = fixture.service.pause(fixture.team, sandboxID, wish)
  await until(async () => (await stateOf(fixture, sandboxID)) === 'pausing')
  return { sandboxID, saving, pause }
}

describe('pausing', () => {
  it('for a move lets a new timeout fail with a conflict, since the sandbox runs again soon', async () => {
    await using fixture = await openFixture()
    const { service, upkeep, team } = fixture
    const sandboxID = await running(fixture)
    await upkeep.pauseAsSeen(await service.get(team, sandboxID), { departs: true })
    await assert.rejects(service.setTimeout(team, sandboxID, 1000), failsWith('conflict'))
  })

  it('makes other verbs wait or rejects them with the reason', async () => {
    await using fixture = await openFixture()
    const { service, team } = fixture
    const { sandboxID, saving, pause } = await pausing(fixture)
    const second = service.pause(team, sandboxID, wish)
    await assert.rejects(service.setTimeout(team, sandboxID, 1000), failsWith('conflict'))
    await assert.rejects(service.fork(team, sandboxID, { timeoutMs: 1000, count: 1 }), failsWith('conflict'))
    saving.open()
    await Promise.all([pause, second])
    await assert.rejects(service.pause(team, sandboxID, wish), /is already paused/)
    await assert.rejects(service.setTimeout(team, sandboxID, 1000), failsWith('not_found'))
    await assert.rejects(service.refresh(team, sandboxID, 1000), failsWith('not_found'))
    await assert.rejects(service.snapshot(team, sandboxID, { memory: true }), failsWith('not_found'))
    await assert.rejects(service.fork(team, sandboxID, { timeoutMs: 1000, count: 1 }), /resume it first/)
    await assert.rejects(service.pause(team, 'inothere', wish), failsWith('not_found'))
    await service.resume(team, sandboxID, timed)
    await assert.rejects(service.resume(team, sandboxID, timed), /is already running/)
  })

  it('makes connect wait, which then resumes', async () => {
    await using fixture = await openFixture()
    const { service, team } = fixture
    const { sandboxID, saving, pause } = await pausing(fixture)
    const connect = service.connect(team, sandboxID, timed)
    saving.open()
    await pause
    assert.equal((await connect).resumed, true)
    assert.deepEqual(contentOf(fixture, sandboxID), ['memory', 'file'])
  })

  it('is cancelled by a kill', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    const sandboxID = await running(fixture)
    driver.beforeSnapshot = () => new Promise(() => {})
    const pause = assert.rejects(service.pause(team, sandboxID, wish), /was killed while it was being paused/)
    await until(async () => (await stateOf(fixture, sandboxID)) === 'pausing')
    await service.kill(team, sandboxID)
    await pause
    assert.equal(driver.world.snapshots.size + driver.world.sandboxes.size, 0)
    assert.equal(await stateOf(fixture, sandboxID), 'ended')
  })

  it('needs an agent that answers if memory is not kept, or if the client asks for that', async () => {
    await using fixture = await openFixture()
    const { service, team, agent, routes } = fixture
    const sandboxID = await running(fixture)
    agent.healthy = false
    for (const refused of [
      { memory: false, requireHealthyAgent: false },
      { memory: true, requireHealthyAgent: true },
    ]) {
      await assert.rejects(
        service.pause(team, sandboxID, refused),
        (error) => failsWith('unavailable')(error) && (error as AppError).retry?.should === false,
      )
      assert.ok(routes.get(sandboxID))
    }
    await service.pause(team, sandboxID, wish)
    assert.equal((await service.get(team, sandboxID)).snapshot?.agentUnresponsive, true)
    await assert.rejects(
      service.connect(team, sandboxID, timed),
      (error) => (error as AppError).slug === 'sandbox_snapshot_guest_agent_unresponsive',
    )
    await service.connect(team, sandboxID, { ...timed, memory: false })
    assert.deepEqual(contentOf(fixture, sandboxID), [undefined, 'file'])
  })

  it('keeps the memory of a sandbox that an earlier process froze and no round has found yet', async () => {
    await using fixture = await openFixture()
    const { service, team, agent, driver } = fixture
    const sandboxID = await running(fixture)
    driver.world.sandboxes.get(sandboxID)!.frozen = true
    agent.healthy = false
    const withoutMemory = { memory: false, requireHealthyAgent: false }
    await assert.rejects(service.pause(team, sandboxID, withoutMemory), failsWith('unavailable'))
    driver.world.sandboxes.get(sandboxID)!.frozen = true
    await service.pause(team, sandboxID, { memory: true, requireHealthyAgent: true })
    assert.equal((await service.get(team, sandboxID)).snapshot?.agentUnresponsive, false)
    agent.healthy = true
    await service.connect(team, sandboxID, timed)
    assert.deepEqual(contentOf(fixture, sandboxID), ['memory', 'file'])
  })

  it('is rejected with memory, and not without, while a process has a network of its own', async () => {
    await using fixture = await openFixture()
    const { service, team, agent, routes, clock } = fixture
    const sandboxID = await running(fixture, { autoPause: true })
    agent.otherNetworks = 'some'
    await assert.rejects(
      service.pause(team, sandboxID, wish),
      (error) => failsWith('unprocessable')(error) && /--network=host/.test((error as AppError).message),
    )
    assert.ok(routes.get(sandboxID))
    clock.advance(60_000)
    const next = clock.now() + 60_000
    await until(async () => (await service.get(team, sandboxID)).endAt === next)
    assert.equal(await stateOf(fixture, sandboxID), 'running')
    assert.deepEqual(contentOf(fixture, sandboxID), ['memory', 'file'])
    await service.pause(team, sandboxID, { ...wish, memory: false })
    assert.equal(await stateOf(fixture, sandboxID), 'paused')
  })

  it('with memory is rejected while the agent does not say whether a process has a network of its own', async () => {
    await using fixture = await openFixture()
    const { service, team, agent, routes } = fixture
    const sandboxID = await running(fixture)
    agent.otherNetworks = 'unknown'
    await assert.rejects(
      service.pause(team, sandboxID, wish),
      (error) => failsWith('unavailable')(error) && (error as AppError).retry?.should === false,
    )
    assert.ok(routes.get(sandboxID))
    assert.deepEqual(contentOf(fixture, sandboxID), ['memory', 'file'])
    agent.otherNetworks = 'none'
    await service.pause(team, sandboxID, wish)
    assert.equal((await service.get(team, sandboxID)).snapshot?.memory, true)
  })

  for (const networks of ['some', 'unknown'] as const) {
    it(`by itself is not dodged by a network of its own: memory is given up in the end (${networks})`, async () => {
      await using fixture = await openFixture()
      const { service, team, agent, clock } = fixture
      const sandboxID = await running(fixture, { autoPause: true })
      agent.otherNetworks = networks
      for (let tries = 1; tries < 5; tries++) {
        clock.advance(60_000)
        const next = clock.now() + 60_000
        await until(async () => (await service.get(team, sandboxID)).endAt === next)
        assert.equal(await stateOf(fixture, sandboxID), 'running')
      }
      clock.advance(60_000)
      await until(async () => (await stateOf(fixture, sandboxID)) === 'paused')
      const { snapshot } = await service.get(team, sandboxID)
      assert.deepEqual([snapshot?.memory, snapshot?.agentUnresponsive], [false, false])
      await service.connect(team, sandboxID, timed)
      assert.deepEqual(contentOf(fixture, sandboxID), [undefined, 'file'])
    })
  }

  it('by itself counts only tries one after another', async () => {
    await using fixture = await openFixture()
    const { service, team, agent, clock } = fixture
    const sandboxID = await running(fixture, { autoPause: true })
    agent.otherNetworks = 'some'
    const tryOnce = async () => {
      clock.advance(60_000)
      const next = clock.now() + 60_000
      await until(async () => (await service.get(team, sandboxID)).endAt === next)
    }
    for (let tries = 1; tries < 5; tries++) await tryOnce()
    await service.setTimeout(team, sandboxID, 700_000)
    clock.advance(640_000)
    await tryOnce()
    assert.equal(await stateOf(fixture, sandboxID), 'running')
  })

  it('happens automatically at the end of the timeout, if the client asked for it', async () => {
    await using fixture = await openFixture()
    const { team, clock, service } = fixture
    const [full, files] = [
      await running(fixture, { autoPause: true }),
      await running(fixture, { autoPause: true, autoPauseMemory: false }),
    ]
    clock.advance(60_000)
    for (const sandboxID of [full, files]) {
      await until(async () => (await stateOf(fixture, sandboxID)) === 'paused')
    }
    assert.equal((await service.get(team, full)).snapshot?.memory, true)
    assert.equal((await service.get(team, files)).snapshot?.memory, false)
  })

  it('leaves the sandbox running if it fails automatically, and is tried again', async () => {
    await using fixture = await openFixture()
    const { team, clock, service, driver } = fixture
    const sandboxID = await running(fixture, { autoPause: true })
    let tries = 0
    driver.beforeSnapshot = async () => {
      if (tries++ === 0) throw new AppError('no_space', 'the disk is full')
    }
    clock.advance(60_000)
    await until(async () => tries === 1 && (await stateOf(fixture, sandboxID)) === 'running')
    assert.equal((await service.get(team, sandboxID)).endAt, clock.now() + 60_000)
    clock.advance(60_000)
    await until(async () => (await stateOf(fixture, sandboxID)) === 'paused')
  })
})
