import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { failsWith, openFixture, request, until } from '../../../../test/support/domain.ts'
import {
  contentOf,
  running,
  startNextRun,
  stateOf,
  timed,
  wish,
} from '../../../../test/support/pausable-sandbox.ts'
import { failTransitions } from '../../../../test/support/store-faults.ts'
import { AppError } from '../../../lib/app-error.ts'

describe('resuming', () => {
  it('happens once for any number of connects', async () => {
    await using fixture = await openFixture()
    const { service, team, agent } = fixture
    const sandboxID = await running(fixture)
    await service.pause(team, sandboxID, wish)
    const all = await Promise.all(Array.from({ length: 5 }, () => service.connect(team, sandboxID, timed)))
    assert.equal(all.filter(({ resumed }) => resumed).length, 1)
    assert.equal(agent.initialized.length, 2)
  })

  it('counts against the limits of the team', async () => {
    await using fixture = await openFixture()
    const { service, team } = fixture
    const sandboxID = await running(fixture)
    await service.pause(team, sandboxID, wish)
    for (let count = 0; count < team.limits.maxSandboxes; count++) await service.create(team, request())
    await assert.rejects(service.connect(team, sandboxID, timed), failsWith('limit_reached'))
    assert.equal(await stateOf(fixture, sandboxID), 'paused')
  })

  it('leaves the sandbox paused if it fails, and can be tried again', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    const sandboxID = await running(fixture)
    await service.pause(team, sandboxID, wish)
    const before = await service.get(team, sandboxID)
    driver.beforeStarted = async () => {
      throw new Error('no memory left')
    }
    await assert.rejects(service.connect(team, sandboxID, timed), /still paused: .*the log of the server/)
    const after = await service.get(team, sandboxID)
    const { runID, transitionID, version } = before
    assert.deepEqual({ ...after, runID, transitionID: transitionID, version }, before)
    driver.beforeStarted = async () => {}
    await service.connect(team, sandboxID, timed)
    assert.deepEqual(contentOf(fixture, sandboxID), ['memory', 'file'])
  })

  it('does not say that the sandbox does not exist if its files or processes do not', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    const sandboxID = await running(fixture)
    await service.pause(team, sandboxID, wish)
    for (const code of ['not_found', 'already_exists'] as const) {
      driver.beforeStarted = async () => {
        throw new AppError(code, 'Something of the machine.')
      }
      await assert.rejects(service.connect(team, sandboxID, timed), { code: 'unavailable' })
    }
  })

  it('says that the sandbox is still paused only if its row says so', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, faults, reconciler } = fixture
    const sandboxID = await running(fixture)
    await service.pause(team, sandboxID, wish)
    driver.beforeStarted = async () => {
      throw new Error('no memory left')
    }
    faults.before = failTransitions('paused', 1, () => new Error('the row was not changed'))
    const failure = await service.connect(team, sandboxID, timed).catch((error: Error) => error.message)
    assert.equal(await stateOf(fixture, sandboxID), 'resuming')
    assert.match(String(failure), /^Sandbox "\w+" could not be resumed: .*the log of the server/)
    await reconciler.run()
    assert.equal(await stateOf(fixture, sandboxID), 'paused')
  })

  it('is cancelled by a kill', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    const sandboxID = await running(fixture)
    await service.pause(team, sandboxID, wish)
    driver.beforeStarted = () => new Promise(() => {})
    const connect = assert.rejects(
      service.connect(team, sandboxID, timed),
      /killed while it was being resumed/,
    )
    await until(async () => (await stateOf(fixture, sandboxID)) === 'resuming')
    await service.kill(team, sandboxID)
    await connect
    assert.equal(driver.world.snapshots.size + driver.world.sandboxes.size, 0)
  })
})

describe('a resume whose node is forgotten meanwhile', () => {
  it('runs no copy of the sandbox once it has started', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, agent, stores } = fixture
    const sandboxID = await running(fixture)
    await service.pause(team, sandboxID, wish)
    const initializedBefore = agent.initialized.length
    driver.beforeStarted = async () => {
      const { runID } = (await stores.sandboxes.find(sandboxID))!
      await stores.sandboxes.transition({ sandboxID, runID, from: ['resuming'] }, 'killing')
      const ended = { endedAt: 1, endReason: 'lost' as const }
      await stores.sandboxes.transition({ sandboxID, runID, from: ['killing'] }, 'ended', ended)
    }
    await assert.rejects(service.connect(team, sandboxID, timed), /was lost while it was being resumed/)
    assert.equal(driver.world.sandboxes.size, 0)
    assert.equal(agent.initialized.length, initializedBefore)
  })
})

describe('a resume that was cut off before a frozen sandbox went on', () => {
  it('leaves it frozen with its memory if it cannot go on, however long ago it was asked for', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { service, team, driver, stores, reconciler } = fixture
    const sandboxID = await running(fixture)
    await service.pause(team, sandboxID, wish)
    const paused = await service.get(team, sandboxID)
    const changes = { runID: 'next', startedAt: 1, endAt: 60_001 }
    await stores.sandboxes.resumeWithinLimits(paused, team.limits, changes)
    const thaw = driver.thaw.bind(driver)
    driver.thaw = async () => {
      throw new Error('the machine is short of something')
    }
    await reconciler.run()
    assert.equal(await stateOf(fixture, sandboxID), 'paused')
    driver.thaw = thaw
    await service.connect(team, sandboxID, timed)
    assert.deepEqual(contentOf(fixture, sandboxID), ['memory', 'file'])
  })
})

describe('a resume that was cut off after the sandbox had run, and lost it', () => {
  it('leaves the sandbox paused with files only, and both row and log say so', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, stores } = fixture
    const sandboxID = await running(fixture)
    await service.pause(team, sandboxID, wish)
    const paused = await service.get(team, sandboxID)
    const { snapshot } = paused
    const changes = { runID: 'next', startedAt: 1, endAt: 60_001 }
    await stores.sandboxes.resumeWithinLimits(paused, team.limits, changes)
    await startNextRun(fixture, sandboxID, snapshot!.name)
    driver.loseEverything()
    await using next = await fixture.again()
    await next.reconciler.run()
    assert.equal((await next.service.get(team, sandboxID)).snapshot?.memory, false)
    assert.ok(next.events.some((line) => /memory of the paused sandbox is lost.*cut off/.test(line)))
    await next.service.connect(team, sandboxID, timed)
    assert.deepEqual(contentOf(next, sandboxID), [undefined, 'file'])
  })
})

describe('traffic', () => {
  it('resumes a sandbox with auto-resume, once for all that wait, for at least five minutes', async () => {
    await using fixture = await openFixture()
    const { service, team, routes, clock, findResumable, agent } = fixture
    const sandboxID = await running(fixture, { autoResume: true })
    assert.equal(await findResumable(sandboxID), undefined)
    await service.pause(team, sandboxID, wish)
    const sleeping = await findResumable(sandboxID)
    const woken = await Promise.all([1, 2, 3].map(() => sleeping!.wake()))
    assert.deepEqual(new Set(woken), new Set([routes.get(sandboxID)]))
    assert.equal(agent.initialized.length, 2)
    assert.equal((await service.get(team, sandboxID)).endAt, clock.now() + 300_000)
  })

  it('waits for the route if the row runs and the route is not open yet', async () => {
    await using fixture = await openFixture()
    const { service, team, routes, findResumable, faults } = fixture
    const sandboxID = await running(fixture, { autoResume: true })
    await service.pause(team, sandboxID, wish)
    let hadRoute: Promise<boolean> | undefined
    faults.after = async (method, args) => {
      if (method !== 'transition' || args[1] !== 'running') return
      hadRoute = findResumable(sandboxID).then(() => routes.get(sandboxID) !== undefined)
      // Time for the answer of one that does not wait.
      for (let round = 0; round < 100; round++) await new Promise((resolve) => setImmediate(resolve))
    }
    await service.connect(team, sandboxID, timed)
    assert.equal(await hadRoute, true)
  })

  it('does not resume other sandboxes', async () => {
    await using fixture = await openFixture()
    const { service, team, findResumable } = fixture
    const plain = await running(fixture)
    await service.pause(team, plain, wish)
    const files = await running(fixture, { autoResume: true })
    await service.pause(team, files, { ...wish, memory: false })
    const killed = await running(fixture, { autoResume: true })
    await service.kill(team, killed)
    for (const sandboxID of [plain, files, killed, 'inothere']) {
      assert.equal(await findResumable(sandboxID), undefined)
    }
  })
})
