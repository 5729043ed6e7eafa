import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  type Fixture,
  failsWith,
  gate,
  openFixture,
  request,
  until,
} from '../../../../test/support/domain.ts'
import type { DiskReserve } from './disk-guard.ts'
import { diskLevels } from './disk-levels.ts'

const mebibyte = 1024 * 1024
/** Reserve 256, start 1024, thaw 768, freeze 512, end 128 MiB. */
const levels = diskLevels(1e12, 256)

/** A disk of which sandboxes, others and the reserve take their part. */
class FakeDisk implements DiskReserve {
  /** MiB that are free beside the reserve. */
  freeMB = 4096
  hasReserve = true
  /** MiB that each sandbox has written. */
  readonly written = new Map<string, number>()

  isBroken = false

  readonly freeBytes = async () => {
    if (this.isBroken) throw new Error('EIO')
    return this.freeMB * mebibyte
  }

  async giveUp(): Promise<void> {
    if (this.hasReserve) this.freeMB += 256
    this.hasReserve = false
  }

  async restore(): Promise<boolean> {
    this.freeMB -= 256
    this.hasReserve = true
    return true
  }

  isThere = async () => this.hasReserve
}

async function openDisk(options: { world?: Fixture['driver']['world'] } = {}) {
  const disk = new FakeDisk()
  const fixture = await openFixture({
    ...options,
    diskLevels: levels,
    ports: { freeBytes: disk.freeBytes, diskReserve: disk },
  })
  return { ...fixture, disk, ...handsOf(fixture, disk) }
}

/** What a test does to the machine. */
function handsOf({ driver, diskGuard, clock, service, team, events, stores }: Fixture, disk: FakeDisk) {
  const settle = async () => {
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
  }
  const look = async (afterMs = 200) => {
    clock.advance(afterMs)
    await diskGuard.look()
    await settle()
  }
  const create = async () => (await service.create(team, request())).sandboxID
  /** Frozen sandboxes write nothing. */
  const write = (sandboxID: string, megabytes: number) => {
    if (driver.world.sandboxes.get(sandboxID)?.frozen) return
    const all = (disk.written.get(sandboxID) ?? 0) + megabytes
    disk.written.set(sandboxID, all)
    disk.freeMB -= megabytes
    driver.diskUses.set(sandboxID, { allocatedBytes: all * mebibyte, unwrittenBytes: 0 })
  }
  return {
    look,
    create,
    /** A sandbox that is frozen, because it wrote 300 MiB when 700 were free. */
    createWriter: async () => {
      const writer = await create()
      disk.freeMB = 700
      await look()
      write(writer, 300)
      await look()
      return writer
    },
    write,
    isFrozen: (sandboxID: string) => driver.world.sandboxes.get(sandboxID)?.frozen === true,
    eventsOf: (sandboxID: string) => events.filter((line) => line.startsWith(sandboxID)).join('\n'),
    rowOf: (sandboxID: string) => stores.sandboxes.find(sandboxID),
    settle,
  }
}

describe('the guard of the disk', () => {
  it('does not end a sandbox that was paused since the last look', async () => {
    await using disk = await openDisk()
    const { service, upkeep, team } = disk
    const sandboxID = await disk.create()
    await service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false })
    await upkeep.endRunning(sandboxID, 'disk_full')
    assert.equal((await disk.rowOf(sandboxID))?.state, 'paused')
    await service.connect(team, sandboxID, { timeoutMs: 60_000, memory: true })
    await upkeep.endRunning(sandboxID, 'disk_full')
    await until(async () => (await disk.rowOf(sandboxID))?.state === 'ended')
    assert.equal((await disk.rowOf(sandboxID))?.endReason, 'disk_full')
  })

  it('does nothing while there is space', async () => {
    await using disk = await openDisk()
    const sandboxID = await disk.create()
    for (let time = 0; time < 5; time++) {
      disk.write(sandboxID, 100)
      await disk.look(1000)
    }
    assert.equal(disk.isFrozen(sandboxID), false)
    disk.diskGuard.require(disk.team.teamID)
  })

  it('rejects new work that takes space before it freezes sandboxes', async () => {
    await using disk = await openDisk()
    const sandboxID = await disk.create()
    disk.disk.freeMB = 1000
    await disk.look()
    const { service, team } = disk
    for (const verb of [
      () => service.create(team, request()),
      () => service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false }),
      () => service.fork(team, sandboxID, { timeoutMs: 60_000, count: 1 }),
      () => service.snapshot(team, sandboxID, { memory: true }),
    ])
      await assert.rejects(verb(), failsWith('no_space'))
    assert.equal((await disk.rowOf(sandboxID))?.state, 'running')
    assert.equal(disk.isFrozen(sandboxID), false)
    disk.disk.freeMB = 1100
    await disk.look()
    await service.create(team, request())
  })

  it('freezes sandboxes that grow, with the reason in their log, and thaws them by itself', async () => {
    await using disk = await openDisk()
    const [writer, quiet] = [await disk.create(), await disk.create()]
    disk.disk.freeMB = 700
    await disk.look()
    disk.write(writer, 100)
    disk.write(quiet, 1)
    await disk.look()
    assert.deepEqual([disk.isFrozen(writer), disk.isFrozen(quiet)], [true, false])
    assert.match(disk.eventsOf(writer), /is frozen because the disk of this server is nearly full/)
    const route = disk.routes.get(writer)!
    assert.match(disk.routes.whyFrozen(route)!, /The sandbox has lost nothing/)
    assert.equal(disk.routes.whyFrozen(disk.routes.get(quiet)!), undefined)
    assert.equal(disk.diskGuard.frozenCount, 1)
    // Not before there is more than when it was stopped.
    disk.disk.freeMB = 700
    await disk.look()
    assert.equal(disk.isFrozen(writer), true)
    disk.disk.freeMB = 800
    await disk.look()
    assert.equal(disk.isFrozen(writer), true, 'not at once: who writes in bursts would come and go')
    await disk.look(3000)
    assert.equal(disk.isFrozen(writer), false)
    assert.equal(disk.routes.whyFrozen(route), undefined)
    assert.match(disk.eventsOf(writer), /continues: the disk of the server has space again/)
    await disk.look()
    assert.equal(disk.isFrozen(writer), false)
  })

  it('counts unwritten bytes, and bytes that will be written before a freeze takes effect', async () => {
    await using disk = await openDisk()
    const [cached, fast] = [await disk.create(), await disk.create()]
    disk.disk.freeMB = 900
    await disk.look()
    disk.driver.diskUses.set(cached, { allocatedBytes: 0, unwrittenBytes: 500 * mebibyte })
    await disk.look()
    assert.equal(disk.isFrozen(cached), true)
    disk.driver.diskUses.set(cached, { allocatedBytes: 0, unwrittenBytes: 0 })
    disk.disk.freeMB = 3000
    await disk.look(3000)
    assert.equal(disk.isFrozen(cached), false)
    // 600 MiB in 200 ms are 3000 in a second.
    disk.write(fast, 600)
    await disk.look()
    assert.equal(disk.isFrozen(fast), true)
  })

  it('keeps sandboxes frozen across a round of the reconciler and a restart of Warren', async () => {
    await using disk = await openDisk()
    const writer = await disk.createWriter()
    await disk.reconciler.run()
    assert.equal(disk.isFrozen(writer), true)
    const again = await disk.again()
    const hands = handsOf(again, disk.disk)
    try {
      await again.diskGuard.look()
      await again.reconciler.run()
      assert.equal(hands.isFrozen(writer), true)
      assert.match(again.routes.whyFrozen(again.routes.get(writer)!)!, /is frozen/)
      disk.disk.freeMB = 2000
      await hands.look(3000)
      assert.equal(hands.isFrozen(writer), false)
    } finally {
      await again[Symbol.asyncDispose]()
    }
  })

  it('does not prevent a kill by the team or by the timeout of a frozen sandbox', async () => {
    await using disk = await openDisk()
    const [killed, expired] = [await disk.create(), await disk.create()]
    disk.disk.freeMB = 700
    await disk.look()
    for (const one of [killed, expired]) disk.write(one, 150)
    await disk.look()
    assert.deepEqual([disk.isFrozen(killed), disk.isFrozen(expired)], [true, true])
    await disk.service.kill(disk.team, killed)
    assert.equal((await disk.rowOf(killed))?.endReason, 'killed')
    disk.clock.advance(120_000)
    await until(async () => (await disk.rowOf(expired))?.state === 'ended')
    assert.equal((await disk.rowOf(expired))?.endReason, 'timeout')
    assert.equal(disk.diskGuard.frozenCount, 0)
  })

  it('lets a sandbox run past its timeout until there is space for its automatic pause', async () => {
    await using disk = await openDisk()
    const { service, team } = disk
    const options = { ...request().options, autoPause: true }
    const { sandboxID } = await service.create(team, request({ options }))
    disk.disk.freeMB = 600
    await disk.look()
    disk.clock.advance(61_000)
    await until(async () => disk.logged.some(({ message }) => message.includes('could not be paused')))
    await disk.settle()
    const row = (await disk.rowOf(sandboxID))!
    assert.deepEqual([row.state, row.endAt > disk.clock.now() + 50_000], ['running', true])
    disk.disk.freeMB = 4000
    await disk.look()
    disk.clock.advance(61_000)
    await until(async () => (await disk.rowOf(sandboxID))?.state === 'paused')
  })

  it('does not delay a kill while a sandbox takes long to freeze', async () => {
    await using disk = await openDisk()
    const writer = await disk.create()
    const stuck = gate()
    disk.driver.beforeFrozen = () => stuck.opened
    disk.disk.freeMB = 700
    await disk.look()
    disk.write(writer, 250)
    await disk.look()
    await disk.service.kill(disk.team, writer)
    assert.equal((await disk.rowOf(writer))?.state, 'ended')
    stuck.open()
  })

  it('ends a sandbox that keeps writing although it should be frozen, with its own reason', async () => {
    await using disk = await openDisk()
    const [writer, quiet] = [await disk.create(), await disk.create()]
    disk.driver.beforeFrozen = async () => {
      throw new Error('processes do not stand still')
    }
    disk.disk.freeMB = 700
    await disk.look()
    for (const megabytes of [300, 200, 150, 10]) {
      disk.write(writer, megabytes)
      await disk.look()
    }
    await until(async () => (await disk.rowOf(writer))?.state === 'ended')
    assert.equal((await disk.rowOf(writer))?.endReason, 'disk_full')
    assert.match(
      disk.eventsOf(writer),
      /the disk of the server was full, and this sandbox had recently written most/,
    )
    assert.equal((await disk.rowOf(quiet))?.state, 'running')
    assert.equal(disk.disk.hasReserve, true)
  })

  it('waits a moment for sandboxes that are being frozen, as long as there is space for that', async () => {
    await using disk = await openDisk()
    const writer = await disk.create()
    const slow = gate()
    disk.driver.beforeFrozen = () => slow.opened
    disk.disk.freeMB = 700
    await disk.look()
    for (const megabytes of [450, 140, 5, 5, 5]) {
      disk.write(writer, megabytes)
      await disk.look()
    }
    assert.equal((await disk.rowOf(writer))?.state, 'running', 'it was told only a second ago')
    disk.write(writer, 60)
    await disk.look()
    await until(async () => (await disk.rowOf(writer))?.state === 'ended')
    slow.open()
  })

  it('freezes sandboxes first that have more unwritten bytes in memory than the disk has space', async () => {
    await using disk = await openDisk()
    const [one, other] = [await disk.create(), await disk.create()]
    disk.disk.freeMB = 1000
    await disk.look()
    for (const each of [one, other])
      disk.driver.diskUses.set(each, { allocatedBytes: 0, unwrittenBytes: 500 * mebibyte })
    await disk.look()
    assert.deepEqual([disk.isFrozen(one), disk.isFrozen(other)], [true, true])
    for (let time = 0; time < 3; time++) await disk.look()
    assert.equal(disk.disk.hasReserve, false)
    for (const each of [one, other]) assert.equal((await disk.rowOf(each))?.state, 'running')
  })

  it('gives up its reserve once nobody writes, and ends a sandbox only when that is used up', async () => {
    await using disk = await openDisk()
    const [writer, quiet] = [await disk.create(), await disk.create()]
    disk.disk.freeMB = 700
    await disk.look()
    disk.write(writer, 300)
    await disk.look()
    assert.equal(disk.isFrozen(writer), true)
    // Somebody else fills the disk.
    disk.disk.freeMB = 100
    for (let time = 0; time < 2; time++) await disk.look()
    assert.equal(disk.disk.hasReserve, false)
    assert.equal((await disk.rowOf(writer))?.state, 'running')
    disk.disk.freeMB = 100
    for (let time = 0; time < 2; time++) await disk.look(5000)
    await until(async () => (await disk.rowOf(writer))?.state === 'ended')
    assert.equal((await disk.rowOf(writer))?.endReason, 'disk_full')
    // Nobody else has taken anything.
    for (let time = 0; time < 3; time++) await disk.look(5000)
    assert.equal((await disk.rowOf(quiet))?.state, 'running')
    disk.disk.freeMB = 2000
    await disk.look()
    assert.deepEqual([disk.disk.hasReserve, disk.disk.freeMB], [true, 1744])
  })

  it('restores its reserve before it thaws a sandbox', async () => {
    await using disk = await openDisk()
    const writer = await disk.createWriter()
    disk.disk.freeMB = 100
    for (let time = 0; time < 2; time++) await disk.look()
    assert.equal(disk.disk.hasReserve, false)
    disk.disk.freeMB = 1000
    await disk.look()
    assert.deepEqual([disk.disk.hasReserve, disk.isFrozen(writer)], [false, true])
    disk.disk.freeMB = 1100
    await disk.look()
    assert.deepEqual([disk.disk.hasReserve, disk.isFrozen(writer)], [true, true])
    await disk.look(3000)
    assert.equal(disk.isFrozen(writer), false)
  })

  it('keeps looking if the disk cannot be measured, and rejects nothing because of that', async () => {
    await using disk = await openDisk()
    disk.disk.isBroken = true
    for (let time = 0; time < 3; time++) await disk.look()
    assert.equal(disk.logged.filter(({ message }) => message.includes('could not be measured')).length, 1)
    const writer = await disk.create()
    disk.disk.isBroken = false
    disk.disk.freeMB = 700
    await disk.look()
    disk.write(writer, 250)
    await disk.look()
    assert.equal(disk.isFrozen(writer), true)
  })
})
