/**
 * Keeps the disk of the machine from running full. Disks of sandboxes are promised and not set aside, so together they can
 * fill it, and what then fails are the writes of everybody: the database, volumes, sandboxes of other teams. So, as space
 * goes: first nothing new is begun; then the sandboxes whose disks grow stand still, in their turn, until there is space
 * again; and where that is not enough, the one that grew most ends. It knows the figures by its ports and does no I/O.
 */
import { AppError } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import type { DiskUse, Driver } from '../../ports/driver.ts'
import * as errors from '../row/errors.ts'
import type { EndReason, Sandbox } from '../row/sandbox.ts'
import type { DiskLevels } from './disk-levels.ts'
import { GrowthMeter, type MeasuredSize } from './growth.ts'
import { GuardLoop } from './guard-loop.ts'
import type { HeldSandboxes, Shortage } from './held-sandboxes.ts'

/** Real blocks that are given up when the disk is nearly full. */
export interface DiskReserve {
  /** Never rejects. */
  giveUp(): Promise<void>
  /** Takes the blocks again. False: it has them already. */
  restore(): Promise<boolean>
  /** Whether it holds any. */
  isThere(): Promise<boolean>
}

export type DiskGuardParts = {
  driver: Driver
  held: HeldSandboxes
  /** Bytes that are free on the disk of the data folder. */
  freeBytes: () => Promise<number>
  /** Bytes of those that volumes may still take. */
  promisedBytes: () => Promise<number>
  levels: DiskLevels
  reserve: DiskReserve
  /** Ends a sandbox, unless it does not run any more. Resolves when its row says so; the rest goes on by itself. */
  end: (sandboxID: string, reason: EndReason) => Promise<void>
  /** Ends one without a row, of the warm pool or of a build. False: it is none of these. */
  endUnowned: (sandboxID: string) => boolean
  /** Called when space has become short: something may be there that can be made again. */
  onShort: () => void
  clock: Clock
  log: Log
}

const mebibyte = 1024 * 1024
const usualLookMs = 1000
const closeLookMs = 200
/** While more than this is left beyond what a start needs, only the free space is looked at. */
const farBytes = 8 * 1024 * mebibyte
/** What sandboxes write at their present pace in this time counts as written: it takes a while until they stand still. */
const lookAheadMs = 1000
/** Who grew less lately goes on, as long as half of what lets sandboxes stand still is left. */
const [muchBytes, anyBytes] = [4 * mebibyte, 64 * 1024]
/** An end that takes longer than this does not keep the next one waiting. */
const endWithinMs = 3000

export class DiskGuard {
  readonly #parts: DiskGuardParts
  readonly #growth = new GrowthMeter()
  readonly #loop: GuardLoop
  readonly #shortage: Shortage = {
    standsStill,
    goesOn: 'the disk of the server has space again',
    keepsFrozen: () => this.#room < this.#parts.levels.thawBytes,
  }
  #room = Number.POSITIVE_INFINITY
  #isShort = false
  /** At the look before, nearly nothing was left. */
  #isEmpty = false
  #lastEndAt = Number.NEGATIVE_INFINITY
  /** Since this process began. */
  readonly counts = { stoodStill: 0, ended: 0 }

  constructor(parts: DiskGuardParts) {
    this.#parts = parts
    parts.held.add(this.#shortage)
    this.#loop = new GuardLoop({
      ...parts,
      work: () => this.#look(),
      everyMs: () => (this.#isNear() ? closeLookMs : usualLookMs),
      failure: 'The disk space could not be looked at; every second tries again.',
    })
  }

  /** How many sandboxes stand still because the disk is nearly full. */
  get heldCount(): number {
    return this.#parts.held.by(this.#shortage).length
  }

  /** The disk is so full that only what ends sandboxes should write. */
  get isCritical(): boolean {
    return this.#room < this.#parts.levels.freezeBytes
  }

  /** Looks again and again, the more often the less space is left. */
  start(): void {
    this.#loop.start()
  }

  close(): Promise<void> {
    return this.#loop.close()
  }

  /** Looks once, and does what that calls for. Never rejects. */
  look(): Promise<void> {
    return this.#loop.look()
  }

  /** Rejects with `no_space` while nothing may be begun that takes space, or would not leave enough with so much more. */
  require(bytes = 0): void {
    const { startBytes } = this.#parts.levels
    if (this.#room - bytes >= startBytes) return
    throw new AppError(
      'no_space',
      `The disk of this server is nearly full: ${megabytes(this.#room)} are left, and ${megabytes(startBytes + bytes)} ` +
        'are needed before a sandbox is created, resumed, paused or copied. Kill sandboxes that are no longer needed, ' +
        'delete snapshots, templates or volumes, or ask the operator for a bigger disk.',
      { retry: { should: false } },
    )
  }

  /** The same for a snapshot of a running sandbox: of its memory where that is kept, of its disk where that is copied. */
  async requireForSnapshot(
    sandbox: Sandbox,
    { memory, disk }: { memory: boolean; disk: boolean },
  ): Promise<void> {
    const { handle, memoryMB, diskMB } = sandbox
    if (this.#parts.held.hasRun(sandbox, this.#shortage)) throw errors.standsStill(standsStill)
    const most = ((memory ? memoryMB : 0) + (disk ? diskMB : 0)) * mebibyte
    if (!handle || this.#room - most >= this.#parts.levels.startBytes) return
    const used = await this.#parts.driver.stats(handle)
    this.require((memory ? used.memoryUsedBytes : 0) + (disk ? used.diskUsedBytes : 0))
  }

  async #look(): Promise<void> {
    await this.#measure()
    this.#tellShort()
    await this.#act()
  }

  #isNear(): boolean {
    return this.heldCount > 0 || this.#room < this.#parts.levels.startBytes + farBytes
  }

  async #measure(): Promise<void> {
    const { driver, held, freeBytes, promisedBytes, clock } = this.#parts
    const left = (await freeBytes()) - (await promisedBytes())
    this.#room = left
    if (!this.#isNear() || !driver.diskUse) return this.#growth.clear()
    const uses = await driver.diskUse()
    this.#growth.measure(uses.map(sizeOf), clock.now(), (sandboxID) => held.has(sandboxID))
    this.#room = left - uses.reduce((total, { unwrittenBytes }) => total + unwrittenBytes, 0)
  }

  #tellShort(): void {
    const { levels, log, onShort } = this.#parts
    const isShort = this.#room < levels.startBytes
    const room = this.#room
    if (isShort && !this.#isShort) {
      const text = 'The disk is nearly full: nothing is begun that takes disk space until there is more.'
      log.warn({ room, wanted: levels.startBytes }, text)
      onShort()
    }
    if (!isShort && this.#isShort) log.info({ room }, 'The disk has enough free space again.')
    this.#isShort = isShort
  }

  async #act(): Promise<void> {
    const { levels, reserve, held } = this.#parts
    const expected = this.#room - (this.#growth.rate * lookAheadMs) / 1000
    if (this.#room < levels.endBytes) return this.#makeSpace()
    this.#isEmpty = false
    if (expected < levels.freezeBytes) return this.#stopGrowing()
    if (this.#room < levels.thawBytes) return
    // First the reserve: those who go on may need it again.
    if (!(await reserve.isThere())) {
      if (this.#room >= levels.thawBytes + levels.reserveBytes && (await reserve.restore()))
        this.#parts.log.info({}, 'The reserve of disk space is there again.')
      return
    }
    held.letNextGoOn(this.#shortage, (sandboxID) => {
      this.#growth.forget(sandboxID)
      this.#parts.log.info({ sandboxID }, 'The disk has space again: a sandbox that stood still goes on.')
    })
  }

  /** The fastest first, all that grow. */
  #stopGrowing(): void {
    const isPressing = this.#room < this.#parts.levels.freezeBytes / 2
    const { held, endUnowned, log } = this.#parts
    for (const { sandboxID, lately } of this.#growth.fastest(isPressing ? anyBytes : muchBytes)) {
      if (held.has(sandboxID) || endUnowned(sandboxID)) continue
      held.hold(sandboxID, this.#shortage, lately, () => {
        this.counts.stoodStill++
        const values = { sandboxID, lately, room: this.#room }
        log.warn(values, 'The disk is nearly full: a sandbox that writes stands still.')
      })
    }
  }

  /**
   * Nearly nothing is left. Whoever still grows cannot be made to stand still in time, and ends. Where nobody does, the
   * reserve is given up; where that has gone too, the one ends that has taken most lately.
   */
  async #makeSpace(): Promise<void> {
    const { reserve, clock, held, levels } = this.#parts
    const isFirst = !this.#isEmpty
    this.#isEmpty = true
    this.#stopGrowing()
    // Memory takes what sandboxes write faster than the disk: they may stand still before it has reached that.
    if (isFirst) return
    if (clock.now() - this.#lastEndAt < endWithinMs) return
    const fastest = this.#growth.fastest(anyBytes)
    const growing = fastest.find(({ sandboxID, isGrowing }) => isGrowing && !held.has(sandboxID))
    // While half of this level is left, there is a moment for those that were just told to stand still.
    const hasMoment = this.#room >= levels.endBytes / 2
    if (growing && hasMoment && held.isAboutToStandStill(growing.sandboxID)) return
    if (growing) return this.#end(growing.sandboxID)
    if (await reserve.isThere()) {
      await reserve.giveUp()
      return void this.#parts.log.warn({}, 'The disk is full: the reserve of disk space is given up.')
    }
    const [first] = fastest
    if (first) this.#end(first.sandboxID)
  }

  #end(sandboxID: string): void {
    const { end, endUnowned, clock, log } = this.#parts
    this.#lastEndAt = clock.now()
    if (endUnowned(sandboxID)) return
    this.counts.ended++
    log.error(
      { sandboxID, room: this.#room },
      'The disk is full: the sandbox that has written most lately ends.',
    )
    end(sandboxID, 'disk_full').catch((error) => {
      log.error(
        { sandboxID, err: error },
        'A sandbox that fills the disk could not be ended; the next look tries again.',
      )
    })
  }
}

const standsStill =
  'The sandbox stands still because the disk of this server is nearly full. Nothing of it is lost: it goes on by itself ' +
  'when there is space again. Kill sandboxes that are no longer needed, or ask the operator to free some space.'

/** What is still on its way to the disk counts as written. */
export const sizeOf = ({ sandboxID, allocatedBytes, unwrittenBytes }: DiskUse): MeasuredSize => ({
  sandboxID,
  bytes: allocatedBytes + unwrittenBytes,
  newBytes: unwrittenBytes,
})

const megabytes = (bytes: number): string => `${Math.max(0, Math.floor(bytes / mebibyte))} MiB`
