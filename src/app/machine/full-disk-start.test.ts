import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { diskLevels } from '../../core/sandbox/capacity/disk-levels.ts'
import { noAgent } from '../../drivers/driver-fixture.ts'
import { FakeDriver } from '../../drivers/fake/fake-driver.ts'
import { systemClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import { FileReserve } from '../data/disk-reserve.ts'
import { stopWritersOnFullDisk } from './full-disk-start.ts'

const mebibyte = 1024 * 1024
const levels = diskLevels(1e9, 16)

/** A driver with these unwritten MiB for each sandbox, and a disk with these free MiB. */
async function startOn(freeMB: number, unwrittenMB: Record<string, number>) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-full-'))
  const driver = new FakeDriver()
  await driver.prepare('/root')
  for (const [sandboxID, megabytes] of Object.entries(unwrittenMB)) {
    const sizes = { cpuCount: 1, memoryMB: 512, diskMB: 1024 }
    const egress = { allow: [], deny: [], toGate: [] } as never
    await driver.start({
      sandboxID,
      runID: `${sandboxID}-1`,
      rootFolder: '/root',
      agent: noAgent,
      ...sizes,
      egress,
    })
    driver.diskUses.set(sandboxID, { allocatedBytes: 0, unwrittenBytes: megabytes * mebibyte })
  }
  const reserve = new FileReserve(folder, levels.reserveBytes)
  await reserve.restore()
  const freeBytes = async () => freeMB * mebibyte
  const parts = { driver, freeBytes, levels, reserve, clock: systemClock, log: silentLog }
  return {
    driver,
    reserve,
    start: () => stopWritersOnFullDisk(parts),
    frozen: () =>
      [...driver.world.sandboxes.values()].filter(({ frozen }) => frozen).map(({ spec }) => spec.sandboxID),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true }),
  }
}

test('a start on a disk with free space freezes and ends no sandbox', async () => {
  using machine = await startOn(1000, { writer: 5 })
  assert.deepEqual(await machine.start(), [])
  assert.deepEqual(machine.frozen(), [])
})

test('a start on a full disk freezes sandboxes that write, and gives up the reserve', async () => {
  using machine = await startOn(1, { writer: 5, quiet: 0 })
  assert.deepEqual(await machine.start(), [])
  assert.deepEqual(machine.frozen(), ['writer'])
  assert.equal(await machine.reserve.reservedBytes(), 0)
})

test('a start on a full disk ends sandboxes whose writes have no space, and those that cannot be frozen', async () => {
  using machine = await startOn(1, { large: 100, small: 2 })
  assert.deepEqual(await machine.start(), ['large'])
  assert.deepEqual(machine.frozen(), ['small'])
  using stuck = await startOn(1, { writer: 2, quiet: 0 })
  stuck.driver.beforeFrozen = () => Promise.reject(new Error('ENOSPC'))
  assert.deepEqual(await stuck.start(), ['writer'])
  assert.equal(stuck.driver.world.sandboxes.has('quiet'), true)
})

test('a start on a full disk ends no sandbox that is frozen already, whatever it wrote before', async () => {
  using machine = await startOn(1, { paused: 100, writer: 90 })
  machine.driver.world.sandboxes.get('paused')!.frozen = true
  assert.deepEqual(await machine.start(), ['writer'])
  assert.deepEqual(machine.frozen(), ['paused'])
  assert.equal(await machine.reserve.reservedBytes(), 0)
})
