import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Fixture, failsWith, gate, openFixture, request, until } from '../../../test/support/domain.ts'
import { noAgent } from '../../drivers/driver-fixture.ts'
import { openRules } from '../ports/egress.ts'

const day = 24 * 3_600_000
const pause = { memory: true, requireHealthyAgent: false }
const connect = { timeoutMs: 60_000, memory: true }

async function paused({ service, team, driver }: Fixture): Promise<string> {
  const { sandboxID } = await service.create(team, request())
  driver.world.sandboxes.get(sandboxID)!.memory.set('m', 'memory')
  await service.pause(team, sandboxID, pause)
  return sandboxID
}

/** The row is ended on a wrong ground: with the knob of a snapshot that is gone for a moment. */
async function loseWrongly({ driver, reconciler, stores }: Fixture, sandboxID: string): Promise<string> {
  const [[name, snapshot]] = [...driver.world.snapshots] as [[string, never]]
  driver.findSnapshot = async () => undefined
  await reconciler.run()
  assert.equal((await stores.sandboxes.find(sandboxID))?.endReason, 'lost')
  driver.world.snapshots.set(name, snapshot)
  delete (driver as Partial<typeof driver>).findSnapshot
  return name
}

/** Ends the row of a paused sandbox as if by a fault, and leaves everything else. */
async function forget({ stores }: Fixture, sandboxID: string) {
  const { snapshot, runID } = (await stores.sandboxes.find(sandboxID))!
  await stores.sandboxes.transition({ sandboxID, runID, from: ['paused'] }, 'killing')
  const ended = { endedAt: 1, endReason: 'lost' as const, snapshot: null }
  await stores.sandboxes.transition({ sandboxID, runID, from: ['killing'] }, 'ended', ended)
  return { snapshotName: snapshot!.name }
}

/** Ends the row of a running sandbox, and leaves its processes. */
async function endRow({ stores }: Fixture, sandboxID: string, endReason: 'lost' | 'killed') {
  const { runID } = (await stores.sandboxes.find(sandboxID))!
  await stores.sandboxes.transition({ sandboxID, runID, from: ['running'] }, 'killing')
  await stores.sandboxes.transition({ sandboxID, runID, from: ['killing'] }, 'ended', {
    endedAt: 1,
    endReason,
  })
}

describe('the quarantine', () => {
  it('keeps the snapshot of a sandbox that ended as lost, and can give the sandbox back', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, quarantine, events } = fixture
    const sandboxID = await paused(fixture)
    const name = await loseWrongly(fixture, sandboxID)
    const entries = await quarantine.list()
    assert.deepEqual(
      entries.map((entry) => [entry.snapshotName, entry.sandboxID, entry.deletedAt - entry.since]),
      [[name, sandboxID, 7 * day]],
    )
    await fixture.reconciler.run()
    const row = await quarantine.recover(name)
    assert.deepEqual([row.state, row.endReason], ['paused', null])
    assert.ok(events.some((line) => line.includes('recovered by the operator')))
    assert.deepEqual(await quarantine.list(), [])
    await fixture.reconciler.run()
    await service.connect(team, sandboxID, connect)
    assert.equal(driver.world.sandboxes.get(sandboxID)?.memory.get('m'), 'memory')
  })

  it('gives a sandbox back with its memory if its pause still holds it frozen', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { service, team, driver, quarantine, reconciler, stores } = fixture
    const sandboxID = await paused(fixture)
    const { snapshotName } = await forget(fixture, sandboxID)
    await reconciler.run()
    await quarantine.recover(snapshotName)
    await reconciler.run()
    assert.equal((await stores.sandboxes.find(sandboxID))?.snapshot?.frozen, true)
    await service.connect(team, sandboxID, connect)
    assert.equal(driver.world.sandboxes.get(sandboxID)?.memory.get('m'), 'memory')
  })

  it('gives a sandbox back from its snapshot if only remains of its frozen processes exist', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { service, team, driver, quarantine, reconciler } = fixture
    const sandboxID = await paused(fixture)
    const { snapshotName } = await forget(fixture, sandboxID)
    await reconciler.run()
    driver.recover = async () => 'gone'
    await quarantine.recover(snapshotName)
    delete (driver as Partial<typeof driver>).recover
    const resumed = await service.connect(team, sandboxID, connect)
    assert.equal(resumed.sandbox.state, 'running')
  })

  it('gives no earlier snapshot of a sandbox back while the sandbox itself runs without a row', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { driver, quarantine, reconciler } = fixture
    const sandboxID = await paused(fixture)
    const { snapshotName } = await forget(fixture, sandboxID)
    await reconciler.run()
    driver.recover = async () => 'running'
    await assert.rejects(quarantine.recover(snapshotName), /still runs although no row owns it/)
  })

  it('keeps a snapshot without an owner for the configured days, then deletes it', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, quarantine, reconciler, clock } = fixture
    const { sandboxID } = await service.create(team, request({ timeoutMs: 3_600_000 }))
    const { handle } = driver.world.sandboxes.get(sandboxID)!
    const options = { memory: false, afterwards: 'go-on', lasting: true } as const
    await driver.takeSnapshot(handle, 'unknown', options)
    await driver.takeSnapshot(handle, 'fork-over', options)
    await reconciler.run()
    assert.deepEqual(await quarantine.names(), ['unknown'])
    assert.deepEqual([...driver.world.snapshots.keys()], ['unknown'], 'what a fork needed goes at once')
    await assert.rejects(quarantine.recover('unknown'), /no ended sandbox that it belongs to/)
    await assert.rejects(quarantine.recover('other'), failsWith('not_found'))
    clock.advance(7 * day - 1)
    await reconciler.run()
    assert.equal(driver.world.snapshots.size, 1)
    clock.advance(1)
    await reconciler.run()
    assert.deepEqual(await quarantine.list(), [])
    assert.equal(driver.world.snapshots.size, 0)
  })

  it('takes a snapshot of a sandbox without a row after five minutes, with its memory', async () => {
    await using fixture = await openFixture()
    const { driver, quarantine, reconciler, clock } = fixture
    const sizes = { cpuCount: 1, memoryMB: 128, diskMB: 64, egress: openRules }
    const sandboxID = `i${'a'.repeat(20)}`
    await driver.start({ sandboxID, runID: 'r', rootFolder: '/root', agent: noAgent, ...sizes })
    await reconciler.run()
    clock.advance(5 * 60_000 - 1)
    await reconciler.run()
    assert.ok(driver.world.sandboxes.has(sandboxID))
    clock.advance(1)
    await reconciler.run()
    assert.equal(driver.world.sandboxes.has(sandboxID), false)
    assert.deepEqual(await quarantine.names(), [`${sandboxID}-r`])
    assert.equal(driver.world.snapshots.get(`${sandboxID}-r`)?.memory, true)
  })

  it('stops a sandbox that runs on after it was lost in the first round, and can give it back', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, quarantine, reconciler, stores } = fixture
    const { sandboxID } = await service.create(team, request())
    await endRow(fixture, sandboxID, 'lost')
    await reconciler.run()
    assert.equal(driver.world.sandboxes.has(sandboxID), false)
    const [name, ...others] = await quarantine.names()
    assert.deepEqual(others, [])
    await quarantine.recover(name!)
    assert.equal((await stores.sandboxes.find(sandboxID))?.state, 'paused')
    assert.equal((await service.connect(team, sandboxID, connect)).sandbox.state, 'running')
  })

  it('stops a sandbox that runs on after its team killed it, and keeps no snapshot', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, quarantine, reconciler } = fixture
    const { sandboxID } = await service.create(team, request())
    await endRow(fixture, sandboxID, 'killed')
    await reconciler.run()
    assert.equal(driver.world.sandboxes.has(sandboxID), false)
    assert.deepEqual(await quarantine.names(), [])
  })

  it('does not keep an incomplete snapshot without an owner', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, quarantine, reconciler } = fixture
    const { sandboxID } = await service.create(team, request())
    const { handle } = driver.world.sandboxes.get(sandboxID)!
    await driver.takeSnapshot(handle, 'cut', { memory: false, afterwards: 'go-on', lasting: true })
    driver.findSnapshot = async () => undefined
    await reconciler.run()
    assert.deepEqual([await quarantine.list(), driver.world.snapshots.size], [[], 0])
  })

  it('does not take the snapshot of a resume that is being recorded', async () => {
    await using fixture = await openFixture()
    const { service, team, quarantine, reconciler, stores } = fixture
    const sandboxID = await paused(fixture)
    const transition = stores.sandboxes.transition.bind(stores.sandboxes)
    let hasLooked = false
    stores.sandboxes.transition = async (at, to, changes) => {
      const transitioned = await transition(at, to, changes)
      if (to === 'running') {
        await reconciler.run()
        hasLooked = true
      }
      return transitioned
    }
    await service.connect(team, sandboxID, connect)
    assert.deepEqual([hasLooked, await quarantine.list()], [true, []])
  })

  it('does not take a snapshot that is being removed', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, quarantine, reconciler } = fixture
    const sandboxID = await paused(fixture)
    const removal = gate()
    const remove = driver.removeSnapshot.bind(driver)
    driver.removeSnapshot = async (folder) => {
      await removal.opened
      await remove(folder)
    }
    await service.connect(team, sandboxID, connect)
    await reconciler.run()
    assert.deepEqual(await quarantine.list(), [])
    removal.open()
    await until(async () => driver.world.snapshots.size === 0)
  })

  it('does not hold a snapshot that its owner deleted', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, quarantine, reconciler } = fixture
    const sandboxID = await paused(fixture)
    await service.kill(team, sandboxID)
    await reconciler.run()
    assert.deepEqual([await quarantine.list(), driver.world.snapshots.size], [[], 0])
  })

  it('does not hold a snapshot that its owner deleted while a round added it', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, quarantine, reconciler, stores } = fixture
    const { sandboxID } = await service.create(team, request())
    const { handle } = driver.world.sandboxes.get(sandboxID)!
    await driver.takeSnapshot(handle, 'of-a-template', { memory: false, afterwards: 'go-on', lasting: true })
    const [isInserting, mayInsert] = [gate(), gate()]
    const insert = stores.quarantine.insert.bind(stores.quarantine)
    stores.quarantine.insert = async (entry) => {
      isInserting.open()
      await mayInsert.opened
      await insert(entry)
    }
    const round = reconciler.run()
    await isInserting.opened
    const removal = reconciler.removeSnapshots(['of-a-template'])
    mayInsert.open()
    await Promise.all([round, removal])
    assert.deepEqual([await quarantine.list(), driver.world.snapshots.size], [[], 0])
  })

  it('lists no missing snapshot, whose entry came late or whose removal was cut off', async () => {
    await using fixture = await openFixture()
    const { quarantine, reconciler, logged } = fixture
    await quarantine.add('removed', 'No sandbox, template or build owns it.')
    await reconciler.run()
    assert.deepEqual(await quarantine.list(), [])
    assert.ok(logged.some(({ message }) => message === 'A snapshot was taken out of quarantine.'))
  })

  it('keeps its entries while the disk cannot be read', async () => {
    await using fixture = await openFixture()
    const { quarantine, reconciler, snapshots } = fixture
    await quarantine.add('not seen', 'No sandbox, template or build owns it.')
    snapshots.names = () => Promise.reject(new Error('EMFILE: too many open files'))
    await reconciler.run()
    assert.deepEqual(await quarantine.names(), ['not seen'])
  })

  it('does not delete a snapshot whose build came late', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, quarantine, reconciler, clock } = fixture
    const { sandboxID } = await service.create(team, request())
    await service.snapshot(team, sandboxID, { memory: true })
    const [name] = [...driver.world.snapshots.keys()] as [string]
    await quarantine.add(name, 'No sandbox, template or build owns it.')
    clock.advance(8 * day)
    await reconciler.run()
    assert.deepEqual([await quarantine.list(), driver.world.snapshots.has(name)], [[], true])
  })
})

describe('a sandbox that dies', () => {
  for (const [how, reason, words] of [
    ['out_of_memory', 'out_of_memory', /used more memory than it has\. The kernel ended it/],
    ['killed', 'killed_from_outside', /killed from outside/],
    ['crashed', 'crashed', /crashed/],
  ] as const) {
    it(`by ${how} ends at once with that reason, loses its route, and its log has the reason`, async () => {
      await using fixture = await openFixture()
      const { service, team, driver, stores, routes, events } = fixture
      const { sandboxID } = await service.create(team, request())
      driver.crash(sandboxID, { reason: how, detail: 'The kernel ended it.' })
      await until(async () => (await stores.sandboxes.find(sandboxID))?.state === 'ended')
      assert.equal((await stores.sandboxes.find(sandboxID))?.endReason, reason)
      assert.equal(routes.get(sandboxID), undefined)
      assert.match(events.at(-1)!, words)
      assert.deepEqual(await driver.list(), [])
    })
  }

  it('while it is frozen in memory stays paused with its files', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { driver, stores } = fixture
    const sandboxID = await paused(fixture)
    driver.crash(sandboxID)
    await until(async () => (await stores.sandboxes.find(sandboxID))?.snapshot?.memory === false)
    assert.equal((await stores.sandboxes.find(sandboxID))?.state, 'paused')
  })

  it('in the middle of a pause ends with its reason, and the pause fails', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, stores } = fixture
    const { sandboxID } = await service.create(team, request())
    driver.beforeSnapshot = async () => driver.crash(sandboxID, { reason: 'out_of_memory' })
    await assert.rejects(service.pause(team, sandboxID, pause))
    await until(async () => (await stores.sandboxes.find(sandboxID))?.state === 'ended')
    assert.equal((await stores.sandboxes.find(sandboxID))?.endReason, 'out_of_memory')
  })
})

it('a death that is reported while an earlier one is looked at ends the sandbox with its own reason', async () => {
  await using fixture = await openFixture()
  const { service, team, driver, stores } = fixture
  const { sandboxID } = await service.create(team, request())
  const recover = driver.recover.bind(driver)
  driver.recover = async (handle) => {
    driver.recover = recover
    // As a warm sandbox that could not be used and was started again.
    driver.world.sandboxes.get(sandboxID)!.running = true
    const there = await recover(handle)
    driver.crash(sandboxID, { reason: 'out_of_memory' })
    return there
  }
  driver.crash(sandboxID)
  await until(async () => (await stores.sandboxes.find(sandboxID))?.state === 'ended')
  assert.equal((await stores.sandboxes.find(sandboxID))?.endReason, 'out_of_memory')
})

it('a problem and an exit are forgotten when their sandbox is gone', async () => {
  await using fixture = await openFixture()
  const { service, team, driver, reconciler, faults } = fixture
  const { sandboxID } = await service.create(team, request())
  faults.before = (method, args) => {
    if (method === 'transition' && args[1] === 'killing') throw new Error('the row cannot be written')
  }
  driver.crash(sandboxID)
  await until(async () => reconciler.remembered.length === 2)
  await reconciler.run()
  assert.deepEqual(reconciler.remembered, [sandboxID, sandboxID])
  faults.before = () => {}
  await service.kill(team, sandboxID)
  await reconciler.run()
  assert.deepEqual(reconciler.remembered, [])
})

it('a create succeeds if its timeout was set before the answer of its last step came', async () => {
  await using fixture = await openFixture()
  const { service, team, stores, routes } = fixture
  const transition = stores.sandboxes.transition.bind(stores.sandboxes)
  let isFirst = true
  stores.sandboxes.transition = async (at, to, changes) => {
    const transitioned = await transition(at, to, changes)
    if (to !== 'running' || !isFirst) return transitioned
    isFirst = false
    await service.setTimeout(team, at.sandboxID, 5000)
    return undefined
  }
  const { sandboxID, state } = await service.create(team, request())
  assert.deepEqual([state, (await service.get(team, sandboxID)).state], ['running', 'running'])
  assert.ok(routes.get(sandboxID))
})

it('a sandbox of the warm pool that a create takes during a round keeps running', async () => {
  await using fixture = await openFixture({ warm: 1 })
  const { service, team, catalog, warm, driver, reconciler, stores, clock } = fixture
  warm.keepReady((await catalog.resolve(team, 'base')).build)
  clock.advance(1000)
  await until(async () => (await driver.list()).some(({ sandboxID }) => warm.owns(sandboxID)))
  const [pooled] = [...driver.world.sandboxes.keys()]
  const listUnended = stores.sandboxes.listUnended.bind(stores.sandboxes)
  let created: string | undefined
  stores.sandboxes.listUnended = async (...given) => {
    const rows = await listUnended(...given)
    created ??= (await service.create(team, request())).sandboxID
    return rows
  }
  await reconciler.run()
  assert.equal(created, pooled)
  assert.equal(driver.world.sandboxes.get(created!)?.running, true)
})
