/**
 * Starts Warren on a disk that ran full while no Warren watched it. The start needs disk space, which sandboxes that
 * still write would take at once, so they are frozen first. Bytes that a frozen sandbox has written may still be on their
 * way to the disk; if there is no space for them, the sandbox ends. Only then does Warren give up the rest of its reserve.
 */
import { canFreeze, canMeasureUse, type Driver, type DriverHandle } from '../../core/ports/driver.ts'
import type { CanMeasureUse } from '../../core/ports/resource-use.ts'
import { sizeOf } from '../../core/sandbox/capacity/disk-guard.ts'
import type { DiskLevels } from '../../core/sandbox/capacity/disk-levels.ts'
import { GrowthMeter } from '../../core/sandbox/capacity/growth.ts'
import { type Clock, delay } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { FileReserve } from '../data/disk-reserve.ts'

type FullDiskStartParts = {
  driver: Driver
  freeBytes: () => Promise<number>
  levels: DiskLevels
  reserve: FileReserve
  clock: Clock
  log: Log
}

/** Time between the two measurements that find sandboxes that write. */
const watchMs = 300
/** A sandbox that grows by less than this in that time is not frozen. */
const minBytes = 64 * 1024

/** Returns the sandboxes that it ended. The caller has to end their rows. */
export async function stopWritersOnFullDisk(parts: FullDiskStartParts): Promise<string[]> {
  const { driver, freeBytes, levels, reserve, log } = parts
  if ((await freeBytes()) >= levels.freezeBytes || !canMeasureUse(driver)) return []
  const writers = await findWriters(driver, parts)
  const frozen = new Set<string>()
  for (const [sandboxID, handle] of writers) {
    // The disk guard thaws the sandbox once the rows can be read.
    if (!canFreeze(driver) || !(await succeeds(() => driver.freeze(handle, undefined, { whileBusy: true }))))
      continue
    frozen.add(sandboxID)
    log.warn({ sandboxID }, 'The disk is full at the start of Warren: a sandbox that writes is frozen.')
  }
  const ended: string[] = []
  for (const { sandboxID } of await largestUnwritten(driver)) {
    const handle = writers.get(sandboxID)
    // A frozen sandbox stays if there is space for all that it has written.
    if (!handle || (frozen.has(sandboxID) && (await leftBytes(driver, parts)) >= levels.endBytes)) continue
    const text = 'The disk is full at the start of Warren: Warren ends a sandbox that writes.'
    log.error({ sandboxID }, text)
    if (await succeeds(() => driver.stop(handle))) ended.push(sandboxID)
  }
  if ((await freeBytes()) < levels.endBytes) {
    await reserve.giveUp()
    log.warn({}, 'The disk is full at the start of Warren: Warren gives up its reserve of disk space.')
  }
  return ended
}

const succeeds = (step: () => Promise<void>): Promise<boolean> =>
  step().then(
    () => true,
    () => false,
  )

async function findWriters(
  driver: Driver & CanMeasureUse,
  { clock }: Pick<FullDiskStartParts, 'clock'>,
): Promise<Map<string, DriverHandle>> {
  const growth = new GrowthMeter()
  growth.measure((await driver.diskUse()).map(sizeOf), clock.now(), () => false)
  await delay(watchMs)
  growth.measure((await driver.diskUse()).map(sizeOf), clock.now(), () => false)
  const found = new Map((await driver.list()).map((one) => [one.sandboxID, one]))
  const writers = new Map<string, DriverHandle>()
  for (const { sandboxID } of growth.fastest(minBytes)) {
    const one = found.get(sandboxID)
    // A frozen sandbox writes nothing and may be a paused one, so it must not end for its earlier writes.
    if (one && !one.unreadable && (await isRunning(driver, one.handle))) writers.set(sandboxID, one.handle)
  }
  return writers
}

/** False also if the driver cannot tell. */
const isRunning = (driver: Driver, handle: DriverHandle): Promise<boolean> =>
  driver.recover(handle).then(
    (there) => there === 'running',
    () => false,
  )

const largestUnwritten = async (driver: CanMeasureUse) =>
  (await driver.diskUse()).sort((a, b) => b.unwrittenBytes - a.unwrittenBytes)

/** Free bytes, reserve included, after all written bytes of sandboxes have reached the disk. */
async function leftBytes(driver: CanMeasureUse, { freeBytes, reserve }: FullDiskStartParts): Promise<number> {
  const unwritten = (await driver.diskUse()).reduce((total, use) => total + use.unwrittenBytes, 0)
  return (await freeBytes()) + (await reserve.reservedBytes()) - unwritten
}
