/**
 * Keeps the disk of the machine from running full. Disks of sandboxes are promised and not set aside, so together they can
 * fill it, and what then fails are the writes of everybody: the database, volumes, sandboxes of other teams. So, as space
 * goes: first nothing new is begun; then the sandboxes whose disks grow stand still, in their turn, until there is space
 * again; and where that is not enough, the one that grew most ends. It knows the figures by its ports and does no I/O.
 */
import { AppError, errorText } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import { canFreeze, type Driver } from '../../ports/driver.ts'
import type { LogEntry } from '../../ports/logs.ts'
import type { RouteTable } from '../network/routes.ts'
import { goesOnEntry, standsStillEntry } from '../row/life-entries.ts'
import type { EndReason, Sandbox } from '../row/sandbox.ts'
import type { SandboxInTurn, SandboxTurns } from '../row/sandbox-turns.ts'
import { DiskGrowth } from './disk-growth.ts'
import type { DiskLevels } from './disk-levels.ts'

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
  turns: SandboxTurns
  routes: RouteTable
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
  appendLog: (sandboxID: string, entry: LogEntry) => void
  log: Log
}

type HeldRun = { runID: string; lately: number; since: number }

const mebibyte = 1024 * 1024
const usualLookMs = 1000
const closeLookMs = 200
/** While more than this is left beyond what a start needs, only the free space is looked at. */
const farBytes = 8 * 1024 * mebibyte
/** What sandboxes write at their present pace in this time counts as written: it takes a while until they stand still. */
const lookAheadMs = 1000
/** Who grew less lately goes on, as long as half of what lets sandboxes stand still is left. */
const [muchBytes, anyBytes] = [4 * mebibyte, 64 * 1024]
/** Who writes in bursts would stand still and go on many times a second otherwise. */
const stillAtLeastMs = 3000
/** An end that takes longer than this does not keep the next one waiting. */
const endWithinMs = 3000

export class DiskGuard {
  readonly #parts: DiskGuardParts
  readonly #growth = new DiskGrowth()
  readonly #held = new Map<string, HeldRun>()
  /** Those that are just being frozen, thawed or ended. */
  readonly #changing = new Set<string>()
  #room = Number.POSITIVE_INFINITY
  #isShort = false
  /** At the look before, nearly nothing was left. */
  #isEmpty = false
  #lastEndAt = Number.NEGATIVE_INFINITY
  #problem: string | undefined
  #cancelLook: (() => void) | undefined
  #looking = Promise.resolve()
  #isClosed = false
  /** Since this process began. */
  readonly counts = { stoodStill: 0, ended: 0 }

  constructor(parts: DiskGuardParts) {
    this.#parts = parts
    parts.routes.onRemove(({ sandboxID, runID }) => {
      if (this.#held.get(sandboxID)?.runID === runID) this.#held.delete(sandboxID)
    })
  }

  /** How many sandboxes stand still because the disk is nearly full. */
  get heldCount(): number {
    return this.#held.size
  }

  /** The disk is so full that only what ends sandboxes should write. */
  get isCritical(): boolean {
    return this.#room < this.#parts.levels.freezeBytes
  }

  /** Looks again and again, the more often the less space is left. */
  start(): void {
    if (this.#isClosed) return
    const everyMs = this.#isNear() ? closeLookMs : usualLookMs
    this.#cancelLook = this.#parts.clock.after(everyMs, () => {
      this.#looking = this.look().finally(() => this.start())
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelLook?.()
    await this.#looking
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
    { sandboxID, runID, handle, memoryMB, diskMB }: Sandbox,
    { memory, disk }: { memory: boolean; disk: boolean },
  ): Promise<void> {
    if (this.#held.get(sandboxID)?.runID === runID) throw new AppError('no_space', standsStill)
    const most = ((memory ? memoryMB : 0) + (disk ? diskMB : 0)) * mebibyte
    if (!handle || this.#room - most >= this.#parts.levels.startBytes) return
    const used = await this.#parts.driver.stats(handle)
    this.require((memory ? used.memoryUsedBytes : 0) + (disk ? used.diskUsedBytes : 0))
  }

  /**
   * Whether a sandbox that was found frozen stays so. After a restart nobody remembers who stood still: while space is
   * short, whoever is found frozen does.
   */
  keepsFrozen({ sandboxID, runID }: SandboxInTurn): boolean {
    if (this.#held.get(sandboxID)?.runID === runID) return true
    if (this.#room >= this.#parts.levels.thawBytes) return false
    this.#noteHeld(sandboxID, runID)
    return true
  }

  /** Looks once, and does what that calls for. Never rejects. */
  async look(): Promise<void> {
    try {
      await this.#measure()
      this.#tellShort()
      await this.#act()
      this.#problem = undefined
    } catch (error) {
      if (this.#problem === errorText(error)) return
      this.#problem = errorText(error)
      this.#parts.log.error(
        { err: error },
        'The disk space could not be looked at; every second tries again.',
      )
    }
  }

  #isNear(): boolean {
    return this.#held.size > 0 || this.#room < this.#parts.levels.startBytes + farBytes
  }

  async #measure(): Promise<void> {
    const { driver, freeBytes, promisedBytes, clock } = this.#parts
    const left = (await freeBytes()) - (await promisedBytes())
    this.#room = left
    if (!this.#isNear() || !driver.diskUse) return this.#growth.clear()
    const uses = await driver.diskUse()
    this.#growth.measure(uses, clock.now(), (sandboxID) => this.#held.has(sandboxID))
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
    const { levels, reserve, clock } = this.#parts
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
    const longEnough = [...this.#held].filter(([, { since }]) => clock.now() - since >= stillAtLeastMs)
    const [next] = longEnough.sort(([, a], [, b]) => a.lately - b.lately)
    if (next) this.#change(next[0], () => this.#goOn(next[0]))
  }

  /** The fastest first, all that grow. */
  #stopGrowing(): void {
    const isPressing = this.#room < this.#parts.levels.freezeBytes / 2
    for (const { sandboxID, lately } of this.#growth.fastest(isPressing ? anyBytes : muchBytes)) {
      if (this.#held.has(sandboxID) || this.#parts.endUnowned(sandboxID)) continue
      this.#change(sandboxID, () => this.#hold(sandboxID, lately))
    }
  }

  /**
   * Nearly nothing is left. Whoever still grows cannot be made to stand still in time, and ends. Where nobody does, the
   * reserve is given up; where that has gone too, the one ends that has taken most lately.
   */
  async #makeSpace(): Promise<void> {
    const { reserve, clock } = this.#parts
    const isFirst = !this.#isEmpty
    this.#isEmpty = true
    this.#stopGrowing()
    // Memory takes what sandboxes write faster than the disk: they may stand still before it has reached that.
    if (isFirst) return
    if (clock.now() - this.#lastEndAt < endWithinMs) return
    const fastest = this.#growth.fastest(anyBytes)
    const growing = fastest.find(({ sandboxID, isGrowing }) => isGrowing && !this.#held.has(sandboxID))
    if (growing) return this.#end(growing.sandboxID)
    if (await reserve.isThere()) {
      await reserve.giveUp()
      return void this.#parts.log.warn({}, 'The disk is full: the reserve of disk space is given up.')
    }
    const [first] = fastest
    if (first) this.#end(first.sandboxID)
  }

  #change(sandboxID: string, work: () => Promise<void> | undefined): void {
    if (this.#changing.has(sandboxID)) return
    this.#changing.add(sandboxID)
    const done = () => void this.#changing.delete(sandboxID)
    Promise.resolve(work()).then(done, (error) => {
      done()
      this.#parts.log.error(
        { sandboxID, err: error },
        'A sandbox could not be made to stand still, or to go on.',
      )
    })
  }

  /** Undefined while something else is done to it: the next look tries again. */
  #hold(sandboxID: string, lately: number): Promise<void> | undefined {
    const { driver, turns, routes, clock, appendLog, log } = this.#parts
    if (!canFreeze(driver)) return undefined
    return turns.takeIfFree(sandboxID, async ({ row, signal }) => {
      if (row?.state !== 'running' || !row.handle) return
      const { runID } = row
      // Who asks it something from now on is answered, and does not wait for it.
      routes.hold(sandboxID, runID, standsStill)
      try {
        await driver.freeze(row.handle, signal, { whileBusy: true })
      } catch (error) {
        routes.letGo(sandboxID, runID)
        if (signal.aborted) return
        throw error
      }
      this.#noteHeld(sandboxID, runID, lately)
      this.counts.stoodStill++
      appendLog(sandboxID, standsStillEntry(clock.now(), standsStill))
      log.warn(
        { sandboxID, lately, room: this.#room },
        'The disk is nearly full: a sandbox that writes stands still.',
      )
    })
  }

  #noteHeld(sandboxID: string, runID: string, lately = 0): void {
    this.#held.set(sandboxID, { runID, lately, since: this.#parts.clock.now() })
    this.#parts.routes.hold(sandboxID, runID, standsStill)
  }

  #goOn(sandboxID: string): Promise<void> | undefined {
    const { driver, turns, routes, clock, appendLog, log } = this.#parts
    if (!canFreeze(driver)) return undefined
    return turns.takeIfFree(sandboxID, async ({ row, signal }) => {
      const held = this.#held.get(sandboxID)
      if (!held) return
      if (row?.state === 'running' && row.runID === held.runID && row.handle) {
        await driver.thaw(row.handle, signal)
        appendLog(sandboxID, goesOnEntry(clock.now()))
        log.info({ sandboxID }, 'The disk has space again: a sandbox that stood still goes on.')
      }
      this.#held.delete(sandboxID)
      this.#growth.forget(sandboxID)
      routes.letGo(sandboxID, held.runID)
    })
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

const megabytes = (bytes: number): string => `${Math.max(0, Math.floor(bytes / mebibyte))} MiB`
