/**
 * Keeps the memory of the machine from running out. Sandboxes are promised many times the machine's memory, and when it is
 * used up, the kernel kills the biggest process of any team. As memory runs short, the guard first rejects new work, then
 * freezes sandboxes that grow, then pauses them to the disk if the driver can, and at last ends some, always of the team
 * furthest above its share. It never touches a team below its fair share, and lets that team start sandboxes.
 */
import { AppError } from '../../../lib/app-error.ts'
import { RetryDelays } from '../../../lib/retry-delays.ts'
import { canMeasureUse, type Driver } from '../../ports/driver.ts'
import { GuardedResource, type GuardedResourceParts } from './guarded-resource.ts'
import type { MemoryLevels } from './memory-levels.ts'
import type { SandboxTeams } from './sandbox-teams.ts'
import { divideByTeam, type ResourceUse, type TeamShare } from './team-share.ts'

type MachineMemoryGuardParts = GuardedResourceParts & {
  driver: Driver
  sandboxTeams: Pick<SandboxTeams, 'of'>
  /** Bytes of memory that sandboxes can still get. */
  availableBytes: () => Promise<number>
  levels: MemoryLevels
  /** Pauses a running sandbox to the disk. Undefined: another operation has the sandbox's turn. */
  pause: (sandboxID: string) => Promise<boolean> | undefined
}

const mebibyte = 1024 * 1024
/** Figures that were read within this time count as figures of one moment. */
const sameMomentMs = 200
/** Minimum recent growth of a sandbox to be frozen: above half of the freeze level, and below it. */
const muchBytes = 8 * mebibyte
const anyBytes = mebibyte
/** Time after which a frozen sandbox is paused to the disk, if memory is still short. */
const pauseAfterMs = 10_000
/** Time after which the guard may end another sandbox, even if the end of the last one is not over. */
const endWithinMs = 2000
/** Delays before the next attempt to pause a sandbox that could not be paused. */
const pauseRetries = { firstMs: 60_000, longestMs: 600_000 }

export class MachineMemoryGuard {
  readonly #parts: MachineMemoryGuardParts
  readonly #memory: GuardedResource
  /** By sandbox. */
  readonly #pauseDelays = new RetryDelays(pauseRetries)
  /** Whether memory was nearly used up at the previous look. */
  #isEmpty = false
  /** The sandbox that is being paused to the disk. */
  #pausing: string | undefined
  #pausedCount = 0

  constructor(parts: MachineMemoryGuardParts) {
    this.#parts = parts
    this.#memory = new GuardedResource(parts, {
      shortage: { guard: 'memory', frozenMessage, goesOn: 'the server has memory again' },
      levels: parts.levels,
      look: () => this.#look(),
      closeLookMs: 100,
      farBytes: 4 * 1024 * mebibyte,
      lookAheadMs: 500,
      endReason: 'memory_full',
      left: 'of memory were left',
      lines,
    })
  }

  /** Counted since this process started. */
  get counts(): Readonly<Record<'frozen' | 'paused' | 'ended', number>> {
    return { ...this.#memory.counts, paused: this.#pausedCount }
  }

  /** Number of sandboxes that are frozen because memory is nearly used up. */
  get frozenCount(): number {
    return this.#memory.frozenCount
  }

  /** Each team's share at the last look, the one furthest above first. Empty while much is left. */
  get teamShares(): readonly TeamShare[] {
    return this.#memory.shares.teams
  }

  /** Starts to look at regular intervals, which are shorter when little memory is left. */
  start(): void {
    this.#memory.loop.start()
  }

  close(): Promise<void> {
    return this.#memory.loop.close()
  }

  /** Measures once and acts on the result. Never rejects. */
  look(): Promise<void> {
    return this.#memory.loop.look()
  }

  /** Memory that must be available before the team may start something. Known from the last look, so it costs nothing. */
  minFreeMB(teamID: string): number {
    const { startBytes, endBytes } = this.#parts.levels
    return (this.#memory.isBelowFairShare(teamID) ? endBytes : startBytes) / mebibyte
  }

  /** Throws `unavailable` while the team may start nothing that takes memory. */
  require(teamID: string): void {
    if (this.#memory.freeBytes >= this.minFreeMB(teamID) * mebibyte) return
    this.#memory.noteRefusal(teamID, 'too little for a build of this team.')
    throw new AppError('unavailable', 'The memory of this server is nearly used up; try again later.', {
      retry: { should: true, afterSeconds: 10 },
    })
  }

  async #look(): Promise<void> {
    if (this.#parts.levels.startBytes === 0) return
    await this.#measure()
    this.#memory.reportShortage()
    this.#act()
  }

  async #measure(): Promise<void> {
    const { driver, availableBytes, clock, sandboxTeams } = this.#parts
    const memory = this.#memory
    const isNear = memory.isNear()
    const began = clock.now()
    // Read in this order: memory that is freed in between then counts as used and as available, which takes from nobody.
    const uses = isNear && canMeasureUse(driver) ? await driver.memoryUse() : undefined
    const before = memory.freeBytes
    memory.freeBytes = await availableBytes()
    // Sandboxes are not measured in the look that first finds little memory, but from the next look on.
    if (!uses) return memory.forgetUses()
    const sizes = uses.map(({ sandboxID, usedBytes: bytes }) => ({ sandboxID, bytes }))
    const isOld = clock.now() - began > sameMomentMs
    memory.measureGrowth(sizes)
    memory.teamOf = await sandboxTeams.of(uses.map(({ sandboxID }) => sandboxID))
    const usedBytes = uses.reduce((sum, use) => sum + use.usedBytes, 0)
    const freeBytes = isOld ? Math.max(before, memory.freeBytes) : memory.freeBytes
    this.#divide(memory.usesOf(sizes), usedBytes + freeBytes, usedBytes, isOld)
  }

  /**
   * Figures of different moments could charge a small team with memory that another has taken or freed meanwhile: then the
   * larger total counts, of this look and of the one before.
   */
  #divide(known: readonly ResourceUse[], totalBytes: number, usedBytes: number, isOld: boolean): void {
    const { startBytes, thawBytes } = this.#parts.levels
    const before = this.#memory.totalBytes
    this.#memory.totalBytes = totalBytes
    const total = isOld ? Math.max(before, totalBytes) : totalBytes
    const unknownBytes = usedBytes - known.reduce((sum, use) => sum + use.usedBytes, 0)
    const memory = { sharedBytes: total - startBytes, usableBytes: total - thawBytes, unknownBytes }
    this.#memory.shares = divideByTeam(known, memory)
  }

  #act(): void {
    const { levels } = this.#parts
    const { freeBytes, expectedBytes } = this.#memory
    if (expectedBytes < levels.freezeBytes) this.#stopGrowing()
    const wasEmpty = this.#isEmpty
    this.#isEmpty = freeBytes < levels.endBytes
    // Wait one look before a sandbox ends: the freezes that have just begun may be enough.
    if (this.#isEmpty && wasEmpty) this.#freeMemory(expectedBytes)
    if (freeBytes < levels.thawBytes && !this.#isEmpty) this.#pauseFrozen()
    if (freeBytes >= levels.thawBytes && expectedBytes >= levels.freezeBytes)
      this.#memory.letGoOn({ onlyBelow: false })
    // Others have grown, or the team has given back: its sandboxes are no longer frozen for their sake.
    else if (!this.#isEmpty) this.#memory.letGoOn({ onlyBelow: true })
  }

  /** Freezes all sandboxes beyond their share that grow, the fastest first. */
  #stopGrowing(): void {
    const { freeBytes, shares } = this.#memory
    const isPressing = freeBytes < this.#parts.levels.freezeBytes / 2
    this.#memory.freezeGrowing(isPressing ? anyBytes : muchBytes, (sandboxID) => shares.beyond.has(sandboxID))
  }

  /** A freeze frees no memory, so sandboxes that stay frozen for long are paused to the disk, one at a time. */
  #pauseFrozen(): void {
    const { frozen, clock } = this.#parts
    const long = frozen.by(this.#memory.shortage).filter(({ since }) => clock.now() - since >= pauseAfterMs)
    const ids = new Set(long.map(({ sandboxID }) => sandboxID))
    const next = [...this.#memory.shares.beyond.keys()].find(
      (sandboxID) => ids.has(sandboxID) && this.#canPause(sandboxID),
    )
    if (next !== undefined) this.#pause(next)
  }

  /**
   * Memory is nearly used up. Takes it back from the team furthest above its share: ends a sandbox that still grows, because it
   * could not be frozen in time. If none grows, pauses to the disk, or else ends, the sandbox that recently grew most, or
   * the one furthest beyond its share. A pause takes a while; if others will have used up the memory before, sandboxes end.
   */
  #freeMemory(expected: number): void {
    const { clock, levels } = this.#parts
    if (clock.now() - this.#memory.lastEndAt < endWithinMs) return
    const { growth, freeBytes, shares } = this.#memory
    const { beyond } = shares
    const [first] = beyond.values()
    if (!first) return
    const order = this.#orderIn(first.teamID)
    const next = order[0]!
    const isPressing = growth.rate > 0 && (expected <= 0 || freeBytes < levels.endBytes / 2)
    if (!next.isGrowing && !isPressing) {
      if (this.#pausing !== undefined || this.#pause(next.sandboxID)) return
    }
    // One is enough, unless the team is made of many small ones.
    let wanted = levels.endBytes - freeBytes
    for (const { sandboxID } of order) {
      this.#memory.end(sandboxID)
      wanted -= beyond.get(sandboxID)!.usedBytes
      if (wanted <= 0 || !isPressing) return
    }
  }

  /** The team's sandboxes beyond its share: those that still grow first, then those that grew, then the largest. */
  #orderIn(teamID: string): { sandboxID: string; isGrowing: boolean }[] {
    const { frozen } = this.#parts
    const grown = this.#memory.growth.fastest(anyBytes)
    const rank = new Map(grown.map((one, index) => [one.sandboxID, { ...one, index }]))
    const isGrowing = (id: string) => rank.get(id)?.isGrowing === true && !frozen.has(id)
    const own = [...this.#memory.shares.beyond].filter(([, share]) => share.teamID === teamID)
    return own
      .map(([sandboxID]) => ({
        sandboxID,
        isGrowing: isGrowing(sandboxID),
        index: rank.get(sandboxID)?.index ?? grown.length,
      }))
      .sort((a, b) => Number(b.isGrowing) - Number(a.isGrowing) || a.index - b.index)
  }

  #canPause(sandboxID: string): boolean {
    const { driver, clock } = this.#parts
    return driver.capabilities.snapshotMemory && !this.#pauseDelays.mustWait(sandboxID, clock.now())
  }

  /** False: the sandbox cannot be paused. */
  #pause(sandboxID: string): boolean {
    const { pause, clock, frozen, log } = this.#parts
    if (!this.#canPause(sandboxID)) return false
    if (this.#pausing !== undefined) return true
    const values = this.#memory.logFields(sandboxID)
    const attempt = async () => {
      this.#pausing = sandboxID
      try {
        if (!(await pause(sandboxID))) return
        this.#pauseDelays.noteSuccess(sandboxID)
        this.#pausedCount++
        this.#memory.note('paused', sandboxID)
        log.warn(values, 'Memory is nearly used up: a sandbox was paused to the disk.')
      } catch (error) {
        this.#pauseDelays.noteFailure(sandboxID, clock.now())
        throw error
      } finally {
        this.#pausing = undefined
      }
    }
    frozen.change(sandboxID, attempt)
    return true
  }
}

const frozenMessage =
  'The sandbox is frozen because the memory of this server is nearly used up. The sandbox has lost nothing: it continues ' +
  'by itself when there is memory again. Kill sandboxes that are no longer needed, or ask the operator for a bigger machine.'

const lines = {
  fails: 'The memory of the machine could not be measured; Warren tries again every second.',
  short: 'Memory is nearly used up: no sandbox starts until more is available.',
  enough: 'There is enough memory again.',
  freezes: 'Memory is nearly used up: a sandbox that grows is frozen.',
  continues: 'There is memory again: a frozen sandbox continues.',
  ends: 'Memory is used up: Warren ends a sandbox that is beyond its share.',
  cannotEnd: 'A sandbox that uses up the memory could not be ended; Warren tries again.',
}
