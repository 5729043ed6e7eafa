import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { failsWith, gate, request, until } from '../../../../test/support/domain.ts'
import { handsOf, mebibyte, openScarceMemory } from '../../../../test/support/scarce-memory.ts'
import { poolHas, waiting } from '../../../../test/support/warm-pool.ts'
import { diskLevels } from './disk-levels.ts'

describe('the guard of the memory', () => {
  it('does nothing while there is memory', async () => {
    await using machine = await openScarceMemory()
    const sandboxID = await machine.create()
    for (let time = 0; time < 5; time++) {
      machine.use(sandboxID, 80)
      await machine.look(1000)
    }
    assert.equal(machine.isFrozen(sandboxID), false)
    machine.memoryGuard.require(machine.team.teamID)
  })

  it('rejects new work before it freezes sandboxes', async () => {
    await using machine = await openScarceMemory({ warm: 1 })
    machine.memory.otherMB = 3100
    await machine.look()
    assert.throws(() => machine.memoryGuard.require(machine.team.teamID), failsWith('unavailable'))
    const created = machine.service.create(machine.team, request())
    const rejected = assert.rejects(created, failsWith('unavailable'))
    await machine.settle()
    machine.clock.advance(1000)
    await rejected
    machine.memory.otherMB = 2000
    await machine.look()
    machine.memoryGuard.require(machine.team.teamID)
    await machine.create()
  })

  it('freezes sandboxes that grow beyond their share, with the reason in their log, and thaws them', async () => {
    await using machine = await openScarceMemory()
    const [hog, small] = [await machine.create(), await machine.create()]
    machine.memory.otherMB = 3200
    machine.use(hog, 200)
    machine.use(small, 20)
    await machine.look()
    machine.use(hog, 200)
    machine.use(small, 20)
    await machine.look()
    // One look alone may have met a moment between two figures.
    await machine.look()
    assert.deepEqual([machine.isFrozen(hog), machine.isFrozen(small)], [true, false])
    assert.match(machine.eventsOf(hog), /is frozen because the memory of this server is nearly used up/)
    assert.match(machine.routes.whyFrozen(machine.routes.get(hog)!)!, /The sandbox has lost nothing/)
    assert.equal(machine.routes.whyFrozen(machine.routes.get(small)!), undefined)
    assert.equal(machine.memoryGuard.frozenCount, 1)
    machine.memory.otherMB = 2000
    await machine.look()
    assert.equal(machine.isFrozen(hog), true, 'not at once: who takes memory in bursts would come and go')
    await machine.look(3000)
    assert.equal(machine.isFrozen(hog), false)
    assert.match(machine.eventsOf(hog), /continues: the server has memory again/)
    assert.equal(machine.routes.whyFrozen(machine.routes.get(hog)!), undefined)
  })

  it('counts memory that will be taken before a freeze takes effect', async () => {
    await using machine = await openScarceMemory()
    const [fast] = [await machine.create(), await machine.create(), await machine.create()]
    machine.memory.otherMB = 2900
    await machine.look()
    machine.use(fast, 420)
    await machine.look()
    assert.equal(
      machine.isFrozen(fast),
      true,
      'half a second at its pace is more than the 776 MiB that are left',
    )
  })

  it('never touches a sandbox within its share, however fast it grows', async () => {
    await using machine = await openScarceMemory({ snapshotMemory: false })
    const [large, small] = [await machine.create(), await machine.create()]
    machine.use(large, 500)
    machine.memory.otherMB = 2700
    await machine.look()
    for (let time = 0; time < 6; time++) {
      machine.use(small, 10)
      machine.memory.otherMB += 100
      await machine.look()
      assert.equal(machine.isFrozen(small), false)
    }
    for (let time = 0; time < 3; time++) await machine.look(3000)
    await until(async () => (await machine.rowOf(large))?.state === 'ended')
    assert.equal((await machine.rowOf(large))?.endReason, 'memory_full')
    assert.match(
      machine.eventsOf(large),
      /the memory of the server was used up, and this sandbox was furthest beyond its share/,
    )
    assert.equal((await machine.rowOf(small))?.state, 'running')
    assert.deepEqual(machine.memoryGuard.counts, { frozen: 0, paused: 0, ended: 1 })
  })

  it('pauses a sandbox that was frozen for long while memory stays short, and the sandbox can be resumed', async () => {
    await using machine = await openScarceMemory()
    const [hog, small] = [await machine.create(), await machine.create()]
    machine.memory.otherMB = 3200
    machine.use(hog, 200)
    await machine.look()
    machine.use(hog, 200)
    await machine.look()
    // One look alone may have met a moment between two figures.
    await machine.look()
    await machine.look(5000)
    assert.equal((await machine.rowOf(hog))?.state, 'running')
    await machine.look(5000)
    await until(async () => (await machine.rowOf(hog))?.state === 'paused')
    const row = (await machine.rowOf(hog))!
    assert.deepEqual([row.snapshot?.memory, row.snapshot?.agentUnresponsive], [true, false])
    assert.match(machine.eventsOf(hog), /was paused because the memory of this server is nearly used up/)
    assert.equal(machine.memoryGuard.counts.paused, 1)
    assert.equal(machine.memoryGuard.frozenCount, 0)
    await machine.settle()
    machine.memory.otherMB = 1000
    await machine.look()
    await machine.service.connect(machine.team, hog, { timeoutMs: 60_000, memory: true })
    assert.equal((await machine.rowOf(hog))?.state, 'running')
    assert.equal(machine.isFrozen(hog), false)
    assert.equal((await machine.rowOf(small))?.state, 'running')
  })

  it('freezes sandboxes of a driver without memory snapshots, and ends none while that is enough', async () => {
    await using machine = await openScarceMemory({ snapshotMemory: false })
    const [hog] = [await machine.create(), await machine.create()]
    machine.memory.otherMB = 3200
    machine.use(hog, 200)
    await machine.look()
    machine.use(hog, 200)
    for (let time = 0; time < 10; time++) await machine.look(5000)
    assert.equal(machine.isFrozen(hog), true)
    assert.equal((await machine.rowOf(hog))?.state, 'running')
  })

  it('ends a sandbox that cannot be frozen', async () => {
    await using machine = await openScarceMemory()
    const [hog, small] = [await machine.create(), await machine.create()]
    machine.driver.beforeFrozen = async () => {
      throw new Error('processes do not stand still')
    }
    machine.memory.otherMB = 3300
    for (const megabytes of [150, 150, 150, 100, 10, 10]) {
      machine.use(hog, megabytes)
      await machine.look()
    }
    await until(async () => (await machine.rowOf(hog))?.state === 'ended')
    assert.equal((await machine.rowOf(hog))?.endReason, 'memory_full')
    assert.equal((await machine.rowOf(small))?.state, 'running')
  })

  it('ends a sandbox that could not be paused, and not before its pause has failed', async () => {
    await using machine = await openScarceMemory()
    const [hog] = [await machine.create(), await machine.create()]
    machine.driver.beforeSnapshot = async () => {
      throw new Error('ENOSPC')
    }
    machine.use(hog, 500)
    machine.memory.otherMB = 3400
    await machine.look()
    await machine.look()
    assert.equal((await machine.rowOf(hog))?.state, 'running')
    assert.equal(machine.memoryGuard.counts.ended, 0)
    await machine.look()
    await until(async () => (await machine.rowOf(hog))?.state === 'ended')
    assert.deepEqual(machine.memoryGuard.counts, { frozen: 0, paused: 0, ended: 1 })
  })

  it('pauses one sandbox at a time', async () => {
    await using machine = await openScarceMemory()
    const [one, other] = [await machine.create(), await machine.create()]
    const writing = gate()
    machine.driver.beforeSnapshot = () => writing.opened
    for (const each of [one, other]) machine.use(each, 400)
    machine.memory.otherMB = 3200
    for (let time = 0; time < 3; time++) await machine.look(3000)
    const states = [(await machine.rowOf(one))!.state, (await machine.rowOf(other))!.state]
    assert.deepEqual(states.sort(), ['pausing', 'running'])
    writing.open()
    await machine.settle()
  })

  it('keeps sandboxes frozen across a round of the reconciler and a restart of Warren', async () => {
    await using machine = await openScarceMemory()
    const [hog] = [await machine.create(), await machine.create()]
    machine.memory.otherMB = 3200
    machine.use(hog, 200)
    await machine.look()
    machine.use(hog, 200)
    await machine.look()
    // One look alone may have met a moment between two figures.
    await machine.look()
    await machine.reconciler.run()
    assert.equal(machine.isFrozen(hog), true)
    const again = await machine.again()
    const hands = handsOf(again)
    try {
      await again.memoryGuard.look()
      await again.reconciler.run()
      assert.equal(hands.isFrozen(hog), true)
      assert.match(again.routes.whyFrozen(again.routes.get(hog)!)!, /is frozen because the memory/)
      machine.memory.otherMB = 1000
      await hands.look(3000)
      assert.equal(hands.isFrozen(hog), false)
    } finally {
      await again[Symbol.asyncDispose]()
    }
  })

  it('does not use figures of different moments against a small sandbox', async () => {
    await using machine = await openScarceMemory()
    const [hog, small] = [await machine.create(), await machine.create()]
    machine.memory.otherMB = 3300
    machine.use(hog, 300)
    await machine.look()
    machine.use(small, 20)
    const { driver } = machine
    const late = gate()
    const measure = driver.memoryUse.bind(driver)
    driver.memoryUse = () => late.opened.then(measure)
    machine.clock.advance(200)
    const looked = machine.memoryGuard.look()
    // The memory was read; meanwhile the one that had it is killed.
    await machine.settle()
    await machine.service.kill(machine.team, hog)
    machine.clock.advance(5000)
    await machine.settle()
    late.open()
    await looked
    await machine.settle()
    assert.equal(machine.isFrozen(small), false)
  })

  it('keeps no sandbox frozen because of a copy that a crash cut off', async () => {
    await using machine = await openScarceMemory()
    const [hog, small] = [await machine.create(), await machine.create()]
    machine.driver.beforeSnapshot = () => new Promise(() => {})
    const { service, team } = machine
    void service.snapshot(team, small, { memory: true }).catch(() => {})
    await until(async () => machine.isFrozen(small))
    machine.memory.otherMB = 3200
    machine.use(hog, 300)
    const again = await machine.again()
    try {
      await again.memoryGuard.look()
      await again.reconciler.run()
      assert.equal(handsOf(again).isFrozen(small), false)
    } finally {
      await again[Symbol.asyncDispose]()
    }
  })

  it('does not delay a kill, or the end of a sandbox’s timeout', async () => {
    await using machine = await openScarceMemory({ snapshotMemory: false })
    const [killed, expired] = [await machine.create(), await machine.create(), await machine.create()]
    machine.memory.otherMB = 3000
    for (let time = 0; time < 2; time++) {
      for (const one of [killed, expired]) machine.use(one, 200)
      await machine.look()
    }
    assert.deepEqual([machine.isFrozen(killed), machine.isFrozen(expired)], [true, true])
    await machine.service.kill(machine.team, killed)
    assert.equal((await machine.rowOf(killed))?.endReason, 'killed')
    machine.clock.advance(120_000)
    await until(async () => (await machine.rowOf(expired))?.state === 'ended')
    assert.equal((await machine.rowOf(expired))?.endReason, 'timeout')
    assert.equal(machine.memoryGuard.frozenCount, 0)
  })

  it('empties the warm pool first', async () => {
    await using machine = await openScarceMemory({ warm: 2 })
    await machine.create()
    await poolHas(machine, 1)
    machine.memory.otherMB = 3200
    await machine.look()
    await until(async () => (await waiting(machine)).length === 0)
    assert.equal(machine.memoryGuard.counts.ended, 0)
  })

  it('thaws a sandbox only if neither disk nor memory is short', async () => {
    await using machine = await openScarceMemory({ diskLevels: diskLevels(1e12, 256) })
    const [hog] = [await machine.create(), await machine.create()]
    machine.memory.otherMB = 3200
    machine.memory.diskMB = 600
    machine.use(hog, 200)
    await machine.look()
    await machine.diskGuard.look()
    machine.use(hog, 200)
    machine.memory.diskMB = 400
    machine.driver.diskUses.set(hog, { allocatedBytes: 200 * mebibyte, unwrittenBytes: 0 })
    machine.clock.advance(200)
    await machine.diskGuard.look()
    await machine.settle()
    await machine.look()
    assert.deepEqual([machine.diskGuard.frozenCount, machine.memoryGuard.frozenCount], [1, 0])
    machine.memory.otherMB = 0
    await machine.look(4000)
    assert.equal(machine.isFrozen(hog), true, 'the disk is still full')
    machine.memory.diskMB = 1e6
    await machine.diskGuard.look()
    await machine.settle()
    assert.equal(machine.isFrozen(hog), false)
  })

  it('keeps looking if the memory cannot be measured, and rejects nothing because of that', async () => {
    await using machine = await openScarceMemory()
    machine.memory.isBroken = true
    for (let time = 0; time < 3; time++) await machine.look()
    assert.equal(machine.logged.filter(({ message }) => message.includes('could not be measured')).length, 1)
    await machine.create()
  })
})
