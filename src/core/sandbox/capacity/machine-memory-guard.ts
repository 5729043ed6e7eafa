/**
 * Keeps the memory of the machine from running out. Sandboxes are promised many times the machine's memory, and when it is
 * used up, the kernel kills the biggest process of any team. As memory runs short, the guard first rejects new work, then
 * freezes sandboxes that grow beyond their share, then pauses them to the disk if the driver can, and at last ends the
 * sandbox that is furthest beyond its share. The guard never touches a sandbox within its share.
 */
import { AppError } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import { RetryDelays } from '../../../lib/retry-delays.ts'
import type { Driver } from '../../ports/driver.ts'
import type { EndReason } from '../row/sandbox.ts'
import { GrowthMeter } from './growth.ts'
import { GuardLoop } from './guard-loop.ts'
import type { HeldSandboxes, Shortage } from './held-sandboxes.ts'
import type { MemoryLevels } from './memory-levels.ts'
import { beyondShare } from './memory-share.ts'

export type MachineMemoryGuardParts = {
  driver: Driver
  held: HeldSandboxes
  /** Bytes of memory that sandboxes can still get. */
  availableBytes: () => Promise<number>
  levels: MemoryLevels
  /** Ends a sandbox if it runs. Resolves when the row says so; the clean-up continues in the background. */
  end: (sandboxID: string, reason: EndReason) => Promise<void>
  /** Ends a sandbox without a row, of the warm pool or of a build. False: the sandbox is neither. */
  endUnowned: (sandboxID: string) => boolean
  /** Pauses a running sandbox to the disk. Undefined: another operation has the sandbox's turn. */
  pause: (sandboxID: string) => Promise<boolean> | undefined
  /** Called when memory has become short, to empty the warm pool. */
  onShort: () => void
  clock: Clock
  log: Log
}

const mebibyte = 1024 * 1024
const usualLookMs = 1000
const closeLookMs = 100
/** With more memory than this beyond the level for starts, the guard does not measure single sandboxes. */
const farBytes = 4 * 1024 * mebibyte
/** Freezing takes a while, so the memory that sandboxes will take within this time counts as taken. */
const lookAheadMs = 500
/** Figures that were read within this time count as figures of one moment. */
const sameMomentMs = 1000
/** Minimum recent growth of a sandbox to be frozen: above half of the freeze level, and below it. */
const [muchBytes, anyBytes] = [8 * mebibyte, mebibyte]
/** Time after which a frozen sandbox is paused to the disk, if memory is still short. */
const pauseAfterMs = 10_000
/** Time after which the guard may end another sandbox, even if the end of the last one is not over. */
const endWithinMs = 2000
/** Delays before the next attempt to pause a sandbox that could not be paused. */
const pauseRetries = { firstMs: 60_000, longestMs: 600_000 }

export class MachineMemoryGuard {
  readonly #parts: MachineMemoryGuardParts
  readonly #growth = new GrowthMeter()
  readonly #loop: GuardLoop
  readonly #shortage: Shortage = {
    standsStill,
    goesOn: 'the server has memory again',
    keepsFrozen: () => this.#room < this.#parts.levels.thawBytes,
  }
  #room = Number.POSITIVE_INFINITY
  /** Bytes beyond its share for each sandbox that exceeds its share, the most first. */
  #beyond = new Map<string, number>()
  /** By sandbox. */
  readonly #pauseDelays = new RetryDelays(pauseRetries)
  #isShort = false
  /** Whether memory was nearly used up at the previous look. */
  #isEmpty = false
  #isPausing = false
  #lastEndAt = Number.NEGATIVE_INFINITY
  /** Counted since this process started. */
  readonly counts = { stoodStill: 0, paused: 0, ended: 0 }

  constructor(parts: MachineMemoryGuardParts) {
    this.#parts = parts
    parts.held.add(this.#shortage)
    this.#loop = new GuardLoop({
      ...parts,
      work: () => this.#look(),
      everyMs: () => (this.#isNear() ? closeLookMs : usualLookMs),
      failure: 'The memory of the machine could not be measured; Warren tries again every second.',
    })
  }

  /** Number of sandboxes that are frozen because memory is nearly used up. */
  get heldCount(): number {
    return this.#parts.held.by(this.#shortage).length
  }

  /** Starts to look at regular intervals, which are shorter when little memory is left. */
  start(): void {
    this.#loop.start()
  }

  close(): Promise<void> {
    return this.#loop.close()
  }

  /** Measures once and acts on the result. Never rejects. */
  look(): Promise<void> {
    return this.#loop.look()
  }

  /** Throws `unavailable` while available memory is below the level for starts. */
  require(): void {
    if (this.#room >= this.#parts.levels.startBytes) return
    throw new AppError('unavailable', 'The memory of this server is nearly used up; try again later.', {
      retry: { should: true, afterSeconds: 10 },
    })
  }

  async #look(): Promise<void> {
    if (this.#parts.levels.startBytes === 0) return
    await this.#measure()
    this.#tellShort()
    this.#act()
  }

  #isNear(): boolean {
    return this.heldCount > 0 || this.#room < this.#parts.levels.startBytes + farBytes
  }

  async #measure(): Promise<void> {
    const { driver, held, availableBytes, levels, clock } = this.#parts
    const isNear = this.#isNear()
    const began = clock.now()
    // Read in this order: memory that is freed in between then counts as used and as available, which takes from nobody.
    const uses = isNear ? await driver.memoryUse?.() : undefined
    const before = this.#room
    this.#room = await availableBytes()
    this.#beyond.clear()
    // Sandboxes are not measured in the look that first finds little memory, but from the next look on.
    if (!uses) return this.#growth.clear()
    const sizes = uses.map(({ sandboxID, usedBytes: bytes }) => ({ sandboxID, bytes }))
    this.#growth.measure(sizes, clock.now(), (sandboxID) => held.has(sandboxID))
    // Figures of different moments could charge a small sandbox with memory that another has taken meanwhile.
    const isOld = clock.now() - began > sameMomentMs
    const wantedBytes = isOld ? 0 : levels.freezeBytes - Math.max(before, this.#room)
    this.#beyond = beyondShare(uses, { roomBytes: this.#room, wantedBytes })
  }

  #tellShort(): void {
    const { levels, log, onShort } = this.#parts
    const isShort = this.#room < levels.startBytes
    const room = this.#room
    if (isShort && !this.#isShort) {
      const text = 'Memory is nearly used up: no sandbox starts until more is available.'
      log.warn({ room, wanted: levels.startBytes }, text)
      onShort()
    }
    if (!isShort && this.#isShort) log.info({ room }, 'There is enough memory again.')
    this.#isShort = isShort
  }

  #act(): void {
    const { levels, held, log } = this.#parts
    const expected = this.#room - (this.#growth.rate * lookAheadMs) / 1000
    if (expected < levels.freezeBytes) this.#stopGrowing()
    const wasEmpty = this.#isEmpty
    this.#isEmpty = this.#room < levels.endBytes
    // Wait one look before a sandbox ends: the freezes that have just begun may be enough.
    if (this.#isEmpty && wasEmpty) this.#makeRoom()
    if (this.#room < levels.thawBytes && !this.#isEmpty) this.#pauseStill()
    if (this.#room < levels.thawBytes || expected < levels.freezeBytes) return
    held.letNextGoOn(this.#shortage, (sandboxID) => {
      this.#growth.forget(sandboxID)
      log.info({ sandboxID }, 'There is memory again: a frozen sandbox continues.')
    })
  }

  /** Freezes all sandboxes that grow and are beyond their share, the fastest first. */
  #stopGrowing(): void {
    const { held, endUnowned, levels, log } = this.#parts
    const isPressing = this.#room < levels.freezeBytes / 2
    for (const { sandboxID, lately } of this.#growth.fastest(isPressing ? anyBytes : muchBytes)) {
      if (!this.#beyond.has(sandboxID) || held.has(sandboxID) || endUnowned(sandboxID)) continue
      held.hold(sandboxID, this.#shortage, lately, () => {
        this.counts.stoodStill++
        const values = { sandboxID, lately, room: this.#room }
        log.warn(values, 'Memory is nearly used up: a sandbox that grows is frozen.')
      })
    }
  }

  /** A freeze frees no memory, so sandboxes that stay frozen for long are paused to the disk, one at a time. */
  #pauseStill(): void {
    const { held, clock } = this.#parts
    const long = held.by(this.#shortage).filter(({ since }) => clock.now() - since >= pauseAfterMs)
    const ids = new Set(long.map(({ sandboxID }) => sandboxID))
    const next = [...this.#beyond.keys()].find((sandboxID) => ids.has(sandboxID) && this.#canPause(sandboxID))
    if (next !== undefined) this.#pause(next)
  }

  /**
   * Memory is nearly used up. Ends a sandbox that is beyond its share and still grows, because it could not be frozen in
   * time. If there is none, pauses to the disk, or else ends, the sandbox beyond its share that recently grew most; if
   * none grew, the one furthest beyond its share.
   */
  #makeRoom(): void {
    const { clock, held } = this.#parts
    if (clock.now() - this.#lastEndAt < endWithinMs) return
    const grown = this.#growth.fastest(anyBytes).filter(({ sandboxID }) => this.#beyond.has(sandboxID))
    const growing = grown.find(({ sandboxID, isGrowing }) => isGrowing && !held.has(sandboxID))
    const next = growing?.sandboxID ?? grown[0]?.sandboxID ?? [...this.#beyond.keys()][0]
    if (next === undefined || (!growing && this.#isPausing)) return
    if (growing || !this.#pause(next)) this.#end(next)
  }

  #canPause(sandboxID: string): boolean {
    const { driver, clock } = this.#parts
    return driver.capabilities.snapshotMemory && !this.#pauseDelays.mustWait(sandboxID, clock.now())
  }

  /** False: the sandbox cannot be paused. */
  #pause(sandboxID: string): boolean {
    const { pause, clock, held, log } = this.#parts
    if (!this.#canPause(sandboxID)) return false
    if (this.#isPausing) return true
    const attempt = async () => {
      this.#isPausing = true
      try {
        if (!(await pause(sandboxID))) return
        this.#pauseDelays.noteSuccess(sandboxID)
        this.counts.paused++
        log.warn(
          { sandboxID, room: this.#room },
          'Memory is nearly used up: a sandbox was paused to the disk.',
        )
      } catch (error) {
        this.#pauseDelays.noteFailure(sandboxID, clock.now())
        throw error
      } finally {
        this.#isPausing = false
      }
    }
    held.change(sandboxID, attempt)
    return true
  }

  #end(sandboxID: string): void {
    const { end, endUnowned, clock, log } = this.#parts
    this.#lastEndAt = clock.now()
    if (endUnowned(sandboxID)) return
    this.counts.ended++
    const values = { sandboxID, room: this.#room, beyondShare: this.#beyond.get(sandboxID) }
    log.error(values, 'Memory is used up: Warren ends a sandbox that is beyond its share.')
    end(sandboxID, 'memory_full').catch((error) => {
      log.error(
        { sandboxID, err: error },
        'A sandbox that uses up the memory could not be ended; Warren tries again.',
      )
    })
  }
}

const standsStill =
  'The sandbox is frozen because the memory of this server is nearly used up. The sandbox has lost nothing: it continues ' +
  'by itself when there is memory again. Kill sandboxes that are no longer needed, or ask the operator for a bigger machine.'
