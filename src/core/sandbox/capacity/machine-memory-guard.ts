/**
 * Keeps the memory of the machine from running out. It is promised to sandboxes many times over, and where it is used up the
 * kernel ends whichever process is biggest, of whatever team. So, as memory goes: first nothing new is begun; then sandboxes
 * that grow beyond their share stand still; then those are paused to the disk where the driver keeps memory; and where that
 * comes too late, the one that is furthest beyond its share ends. A sandbox within its share is never touched.
 */
import { AppError } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
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
  /** Bytes that sandboxes can still get. */
  availableBytes: () => Promise<number>
  levels: MemoryLevels
  /** Ends a sandbox, unless it does not run any more. Resolves when its row says so; the rest goes on by itself. */
  end: (sandboxID: string, reason: EndReason) => Promise<void>
  /** Ends one without a row, of the warm pool or of a build. False: it is none of these. */
  endUnowned: (sandboxID: string) => boolean
  /** Writes the memory of a running sandbox to the disk, and ends its processes. Undefined: not now. */
  pause: (sandboxID: string) => Promise<boolean> | undefined
  /** Called when memory has become short: something may be there that nobody needs. */
  onShort: () => void
  clock: Clock
  log: Log
}

const mebibyte = 1024 * 1024
const usualLookMs = 1000
const closeLookMs = 100
/** While more than this is left beyond what a start needs, only the available memory is looked at. */
const farBytes = 4 * 1024 * mebibyte
/** What sandboxes take at their present pace in this time counts as taken: it takes a while until they stand still. */
const lookAheadMs = 500
/** Figures that were read within this time belong together. */
const sameMomentMs = 1000
/** Who grew less lately goes on, as long as half of what lets sandboxes stand still is left. */
const [muchBytes, anyBytes] = [8 * mebibyte, mebibyte]
/** Who stood still for so long while memory stays short is paused to the disk. */
const pauseAfterMs = 10_000
/** An end that takes longer than this does not keep the next one waiting. */
const endWithinMs = 2000
/** A sandbox that could not be paused is not tried again so soon. */
const pauseAgainMs = 60_000

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
  /** Bytes beyond its share, by sandbox, of those that are beyond it, the furthest first. */
  #beyond = new Map<string, number>()
  readonly #pauseFailedAt = new Map<string, number>()
  #isShort = false
  /** At the look before, nearly nothing was left. */
  #isEmpty = false
  #isPausing = false
  #lastEndAt = Number.NEGATIVE_INFINITY
  /** Since this process began. */
  readonly counts = { stoodStill: 0, paused: 0, ended: 0 }

  constructor(parts: MachineMemoryGuardParts) {
    this.#parts = parts
    parts.held.add(this.#shortage)
    this.#loop = new GuardLoop({
      ...parts,
      work: () => this.#look(),
      everyMs: () => (this.#isNear() ? closeLookMs : usualLookMs),
      failure: 'The memory of the machine could not be looked at; every second tries again.',
    })
  }

  /** How many sandboxes stand still because memory is nearly used up. */
  get heldCount(): number {
    return this.#parts.held.by(this.#shortage).length
  }

  /** Looks again and again, the more often the less memory is left. */
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

  /** Rejects while nothing may be begun that takes memory. */
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
    // In this order: what somebody gives back in between is then counted twice, and what nobody has is wanted of nobody.
    const uses = isNear ? await driver.memoryUse?.() : undefined
    const before = this.#room
    this.#room = await availableBytes()
    this.#beyond.clear()
    // The first look that finds little left makes the next one a close one.
    if (!uses) return this.#growth.clear()
    const sizes = uses.map(({ sandboxID, usedBytes: bytes }) => ({ sandboxID, bytes }))
    this.#growth.measure(sizes, clock.now(), (sandboxID) => held.has(sandboxID))
    // Figures of different moments would put down to a small sandbox what another has taken meanwhile.
    const isOld = clock.now() - began > sameMomentMs
    const wantedBytes = isOld ? 0 : levels.freezeBytes - Math.max(before, this.#room)
    this.#beyond = beyondShare(uses, { roomBytes: this.#room, wantedBytes })
  }

  #tellShort(): void {
    const { levels, log, onShort } = this.#parts
    const isShort = this.#room < levels.startBytes
    const room = this.#room
    if (isShort && !this.#isShort) {
      const text = 'Memory is nearly used up: no sandbox starts until there is more.'
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
    // Those that were just told to stand still may do so before anybody has to end.
    if (this.#isEmpty && wasEmpty) this.#makeRoom()
    if (this.#room < levels.thawBytes && !this.#isEmpty) this.#pauseStill()
    if (this.#room < levels.thawBytes || expected < levels.freezeBytes) return
    held.letNextGoOn(this.#shortage, (sandboxID) => {
      this.#growth.forget(sandboxID)
      log.info({ sandboxID }, 'There is memory again: a sandbox that stood still goes on.')
    })
  }

  /** The fastest first, all that grow and are beyond their share. */
  #stopGrowing(): void {
    const { held, endUnowned, levels, log } = this.#parts
    const isPressing = this.#room < levels.freezeBytes / 2
    for (const { sandboxID, lately } of this.#growth.fastest(isPressing ? anyBytes : muchBytes)) {
      if (!this.#beyond.has(sandboxID) || held.has(sandboxID) || endUnowned(sandboxID)) continue
      held.hold(sandboxID, this.#shortage, lately, () => {
        this.counts.stoodStill++
        const values = { sandboxID, lately, room: this.#room }
        log.warn(values, 'Memory is nearly used up: a sandbox that grows stands still.')
      })
    }
  }

  /** To stand still frees nothing: who does so for long while memory stays short goes to the disk, one at a time. */
  #pauseStill(): void {
    const { held, clock } = this.#parts
    const long = held.by(this.#shortage).filter(({ since }) => clock.now() - since >= pauseAfterMs)
    const ids = new Set(long.map(({ sandboxID }) => sandboxID))
    const next = [...this.#beyond.keys()].find((sandboxID) => ids.has(sandboxID))
    if (next !== undefined) this.#pause(next)
  }

  /**
   * Nearly nothing is left. Whoever is beyond its share and still grows cannot be made to stand still in time, and ends.
   * Where nobody does, the one that grew most lately, or else the one furthest beyond its share, is paused to the disk, or
   * ends where that cannot be.
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

  /** False: it cannot be paused. */
  #pause(sandboxID: string): boolean {
    const { driver, pause, clock, held, log } = this.#parts
    const failedAt = this.#pauseFailedAt.get(sandboxID) ?? Number.NEGATIVE_INFINITY
    if (!driver.capabilities.snapshotMemory || clock.now() - failedAt < pauseAgainMs) return false
    if (this.#isPausing) return true
    const attempt = async () => {
      this.#isPausing = true
      try {
        if (!(await pause(sandboxID))) return
        this.counts.paused++
        log.warn(
          { sandboxID, room: this.#room },
          'Memory is nearly used up: a sandbox was paused to the disk.',
        )
      } catch (error) {
        this.#pauseFailedAt.set(sandboxID, clock.now())
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
    log.error(values, 'Memory is used up: the sandbox that is furthest beyond its share ends.')
    end(sandboxID, 'memory_full').catch((error) => {
      log.error(
        { sandboxID, err: error },
        'A sandbox that uses up the memory could not be ended; the next look tries again.',
      )
    })
  }
}

const standsStill =
  'The sandbox stands still because the memory of this server is nearly used up. Nothing of it is lost: it goes on by itself ' +
  'when there is memory again. Kill sandboxes that are no longer needed, or ask the operator for a bigger machine.'
