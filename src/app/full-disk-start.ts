/**
 * A start on a disk that ran full while no Warren watched it. What the start writes needs space, which sandboxes that still
 * write would take at once: so they stand still first. What such a sandbox has written may still be on its way to the disk,
 * and goes on when its processes stand still; where there is no space for that, the sandbox ends. Only then is the rest of
 * the reserve given up.
 */
import { canFreeze, type Driver, type DriverHandle } from '../core/ports/driver.ts'
import { sizeOf } from '../core/sandbox/capacity/disk-guard.ts'
import type { DiskLevels } from '../core/sandbox/capacity/disk-levels.ts'
import { GrowthMeter } from '../core/sandbox/capacity/growth.ts'
import { type Clock, delay } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import type { FileReserve } from './disk-reserve.ts'

export type FullDiskStartParts = {
  driver: Driver
  freeBytes: () => Promise<number>
  levels: DiskLevels
  reserve: FileReserve
  clock: Clock
  log: Log
}

/** Between two measurements by which those are found that write. */
const watchMs = 300
/** Who grows by less meanwhile goes on. */
const leastBytes = 64 * 1024

/** Returns those that were ended. Their rows do not say so yet. */
export async function stopWritersOnFullDisk(parts: FullDiskStartParts): Promise<string[]> {
  const { driver, freeBytes, levels, reserve, log } = parts
  if ((await freeBytes()) >= levels.freezeBytes || !driver.diskUse) return []
  const writers = await findWriters(parts)
  const frozen = new Set<string>()
  for (const [sandboxID, handle] of writers) {
    // Whether it may go on is decided once the rows can be read.
    if (!canFreeze(driver) || !(await succeeds(() => driver.freeze(handle, undefined, { whileBusy: true }))))
      continue
    frozen.add(sandboxID)
    log.warn({ sandboxID }, 'The disk is full at the start of Warren: a sandbox that writes stands still.')
  }
  const ended: string[] = []
  for (const { sandboxID } of await largestUnwritten(driver)) {
    const handle = writers.get(sandboxID)
    // One that stands still may stay, if there is space for what it has written.
    if (!handle || (frozen.has(sandboxID) && (await leftBytes(parts)) >= levels.endBytes)) continue
    const text = 'The disk is full at the start of Warren: a sandbox that writes ends.'
    log.error({ sandboxID }, text)
    if (await succeeds(() => driver.stop(handle))) ended.push(sandboxID)
  }
  if ((await freeBytes()) < levels.endBytes) {
    await reserve.giveUp()
    log.warn({}, 'The disk is full at the start of Warren: the reserve of disk space is given up.')
  }
  return ended
}

const succeeds = (step: () => Promise<void>): Promise<boolean> =>
  step().then(
    () => true,
    () => false,
  )

async function findWriters({ driver, clock }: FullDiskStartParts): Promise<Map<string, DriverHandle>> {
  const growth = new GrowthMeter()
  growth.measure((await driver.diskUse!()).map(sizeOf), clock.now(), () => false)
  await delay(watchMs)
  growth.measure((await driver.diskUse!()).map(sizeOf), clock.now(), () => false)
  const found = new Map((await driver.list()).map((one) => [one.sandboxID, one]))
  const writers = new Map<string, DriverHandle>()
  for (const { sandboxID } of growth.fastest(leastBytes)) {
    const one = found.get(sandboxID)
    // One that stands still writes no more, and may be paused: its memory is not to be lost for what it wrote before.
    if (one && !one.unreadable && (await isRunning(driver, one.handle))) writers.set(sandboxID, one.handle)
  }
  return writers
}

/** False also where that cannot be found out. */
const isRunning = (driver: Driver, handle: DriverHandle): Promise<boolean> =>
  driver.recover(handle).then(
    (there) => there === 'running',
    () => false,
  )

const largestUnwritten = async (driver: Driver) =>
  (await driver.diskUse!()).sort((a, b) => b.unwrittenBytes - a.unwrittenBytes)

/** With the reserve, once all that sandboxes have written has reached the disk. */
async function leftBytes({ driver, freeBytes, reserve }: FullDiskStartParts): Promise<number> {
  const unwritten = (await driver.diskUse!()).reduce((total, use) => total + use.unwrittenBytes, 0)
  return (await freeBytes()) + (await reserve.heldBytes()) - unwritten
}
