/**
 * Keeps the memory of the machine from running out. Sandboxes are promised many times the machine's memory, and when it is
 * used up, the kernel kills the biggest process of any team. As memory runs short, the guard first rejects new work, then
 * freezes sandboxes that grow, then pauses them to the disk if the driver can, and at last ends some, always of the team
 * furthest above its share. It never touches a team below its fair share, and lets that team start sandboxes.
 */
import { AppError } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import { RetryDelays } from '../../../lib/retry-delays.ts'
import { canMeasureUse, type Driver } from '../../ports/driver.ts'
import type { EndReason } from '../row/sandbox.ts'
import type { FrozenSandboxes, Shortage } from './frozen-sandboxes.ts'
import { GrowthMeter } from './growth.ts'
import { type Act, type GuardActs, mebibytes, whyTouched } from './guard-acts.ts'
import { GuardLoop } from './guard-loop.ts'
import type { MemoryLevels } from './memory-levels.ts'
import type { SandboxTeams } from './sandbox-teams.ts'
import {
  type BeyondShare,
  divideByTeam,
  noShares,
  noTeam,
  type ResourceUse,
  type TeamShare,
  type TeamShares,
} from './team-share.ts'

type MachineMemoryGuardParts = {
  driver: Driver
  sandboxTeams: Pick<SandboxTeams, 'of'>
  frozen: FrozenSandboxes
  acts: Pick<GuardActs, 'note'>
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
  readonly #growth = new GrowthMeter()
  readonly #loop: GuardLoop
  readonly #shortage: Shortage = {
    guard: 'memory',
    frozenMessage,
    goesOn: 'the server has memory again',
    keepsFrozen: () => this.#freeBytes < this.#parts.levels.thawBytes,
  }
  #freeBytes = Number.POSITIVE_INFINITY
  /** All that sandboxes use and can still get. */
  #total = 0
  #shares: TeamShares = noShares
  #teamOf: ReadonlyMap<string, string> = new Map()
  /** By sandbox. */
  readonly #pauseDelays = new RetryDelays(pauseRetries)
  #isShort = false
  /** Whether memory was nearly used up at the previous look. */
  #isEmpty = false
  /** The sandbox that is being paused to the disk. */
  #pausing: string | undefined
  #lastEndAt = Number.NEGATIVE_INFINITY
  /** Counted since this process started. */
  readonly counts = { frozen: 0, paused: 0, ended: 0 }

  constructor(parts: MachineMemoryGuardParts) {
    this.#parts = parts
    parts.frozen.add(this.#shortage)
    this.#loop = new GuardLoop({
      ...parts,
      work: () => this.#look(),
      everyMs: () => (this.#isNear() ? closeLookMs : usualLookMs),
      failure: 'The memory of the machine could not be measured; Warren tries again every second.',
    })
  }

  /** Number of sandboxes that are frozen because memory is nearly used up. */
  get frozenCount(): number {
    return this.#parts.frozen.by(this.#shortage).length
  }

  /** Each team's share at the last look, the one furthest above first. Empty while much is left. */
  get teamShares(): readonly TeamShare[] {
    return this.#shares.teams
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

  /** Memory that must be available before the team may start something. Known from the last look, so it costs nothing. */
  minFreeMB(teamID: string): number {
    const { startBytes, endBytes } = this.#parts.levels
    return (this.#isBelowFairShare(teamID) ? endBytes : startBytes) / mebibyte
  }

  /** Throws `unavailable` while the team may start nothing that takes memory. */
  require(teamID: string): void {
    if (this.#freeBytes >= this.minFreeMB(teamID) * mebibyte) return
    const why = `${this.#left()}, too little for a build of this team.`
    this.#parts.acts.note({ guard: 'memory', act: 'refused', teamID, why })
    throw new AppError('unavailable', 'The memory of this server is nearly used up; try again later.', {
      retry: { should: true, afterSeconds: 10 },
    })
  }

  async #look(): Promise<void> {
    if (this.#parts.levels.startBytes === 0) return
    await this.#measure()
    this.#reportShortage()
    this.#act()
  }

  #isNear(): boolean {
    return this.frozenCount > 0 || this.#freeBytes < this.#parts.levels.startBytes + farBytes
  }

  async #measure(): Promise<void> {
    const { driver, frozen, availableBytes, clock, sandboxTeams } = this.#parts
    const isNear = this.#isNear()
    const began = clock.now()
    // Read in this order: memory that is freed in between then counts as used and as available, which takes from nobody.
    const uses = isNear && canMeasureUse(driver) ? await driver.memoryUse() : undefined
    const before = this.#freeBytes
    this.#freeBytes = await availableBytes()
    // Sandboxes are not measured in the look that first finds little memory, but from the next look on.
    if (!uses) {
      this.#shares = noShares
      return this.#growth.clear()
    }
    const sizes = uses.map(({ sandboxID, usedBytes: bytes }) => ({ sandboxID, bytes }))
    const isOld = clock.now() - began > sameMomentMs
    this.#growth.measure(sizes, clock.now(), (sandboxID) => frozen.has(sandboxID))
    this.#teamOf = await sandboxTeams.of(uses.map(({ sandboxID }) => sandboxID))
    const known = uses.flatMap(({ sandboxID, usedBytes }): ResourceUse[] => {
      const teamID = this.#teamOf.get(sandboxID)
      if (teamID === undefined) return []
      const soonBytes = usedBytes + (this.#growth.rateOf(sandboxID) * lookAheadMs) / 1000
      return [{ sandboxID, teamID, usedBytes, soonBytes }]
    })
    const usedBytes = uses.reduce((sum, use) => sum + use.usedBytes, 0)
    this.#divide(
      known,
      usedBytes + (isOld ? Math.max(before, this.#freeBytes) : this.#freeBytes),
      usedBytes,
      isOld,
    )
  }

  /**
   * Figures of different moments could charge a small team with memory that another has taken or freed meanwhile: then the
   * larger total counts, of this look and of the one before.
   */
  #divide(known: readonly ResourceUse[], totalBytes: number, usedBytes: number, isOld: boolean): void {
    const { startBytes, thawBytes } = this.#parts.levels
    const before = this.#total
    this.#total = totalBytes
    const total = isOld ? Math.max(before, totalBytes) : totalBytes
    const unknownBytes = usedBytes - known.reduce((sum, use) => sum + use.usedBytes, 0)
    const memory = { sharedBytes: total - startBytes, usableBytes: total - thawBytes, unknownBytes }
    this.#shares = divideByTeam(known, memory)
  }

  /** A team that has nothing here yet would get a part of its own. */
  #isBelowFairShare(teamID: string): boolean {
    const { teams } = this.#shares
    const own = teams.find((team) => team.teamID === teamID)
    const parts = teams.length + (own ? 0 : 1)
    const shared = this.#total - this.#parts.levels.startBytes
    return parts > 1 && (own?.usedBytes ?? 0) < shared / parts
  }

  #reportShortage(): void {
    const { levels, log, onShort } = this.#parts
    const isShort = this.#freeBytes < levels.startBytes
    const freeBytes = this.#freeBytes
    if (isShort && !this.#isShort) {
      const text = 'Memory is nearly used up: no sandbox starts until more is available.'
      log.warn({ freeBytes, wanted: levels.startBytes }, text)
      onShort()
    }
    if (!isShort && this.#isShort) log.info({ freeBytes }, 'There is enough memory again.')
    this.#isShort = isShort
  }

  #act(): void {
    const { levels } = this.#parts
    const expected = this.#freeBytes - (this.#growth.rate * lookAheadMs) / 1000
    if (expected < levels.freezeBytes) this.#stopGrowing()
    const wasEmpty = this.#isEmpty
    this.#isEmpty = this.#freeBytes < levels.endBytes
    // Wait one look before a sandbox ends: the freezes that have just begun may be enough.
    if (this.#isEmpty && wasEmpty) this.#freeMemory(expected)
    if (this.#freeBytes < levels.thawBytes && !this.#isEmpty) this.#pauseStill()
    if (this.#freeBytes >= levels.thawBytes && expected >= levels.freezeBytes) this.#letGoOn(() => true)
    // Others have grown, or the team has given back: it no longer stands still for their sake.
    else if (!this.#isEmpty)
      this.#letGoOn((sandboxID) => this.#isBelowFairShare(this.#teamOf.get(sandboxID) ?? noTeam))
  }

  #letGoOn(mayContinue: (sandboxID: string) => boolean): void {
    const { frozen, log } = this.#parts
    const onGone = (sandboxID: string) => {
      this.#growth.forget(sandboxID)
      this.#note('continued', sandboxID)
      log.info({ sandboxID }, 'There is memory again: a frozen sandbox continues.')
    }
    frozen.letNextGoOn(this.#shortage, onGone, mayContinue)
  }

  /** Freezes all sandboxes beyond their share that grow, the fastest first. */
  #stopGrowing(): void {
    const { frozen, levels, log } = this.#parts
    const isPressing = this.#freeBytes < levels.freezeBytes / 2
    for (const { sandboxID, lately } of this.#growth.fastest(isPressing ? anyBytes : muchBytes)) {
      if (!this.#shares.beyond.has(sandboxID) || frozen.has(sandboxID) || this.#endUnowned(sandboxID))
        continue
      frozen.freeze(sandboxID, this.#shortage, lately, () => {
        this.counts.frozen++
        this.#note('frozen', sandboxID)
        const values = { ...this.#logFields(sandboxID), lately }
        log.warn(values, 'Memory is nearly used up: a sandbox that grows is frozen.')
      })
    }
  }

  /** A freeze frees no memory, so sandboxes that stay frozen for long are paused to the disk, one at a time. */
  #pauseStill(): void {
    const { frozen, clock } = this.#parts
    const long = frozen.by(this.#shortage).filter(({ since }) => clock.now() - since >= pauseAfterMs)
    const ids = new Set(long.map(({ sandboxID }) => sandboxID))
    const next = [...this.#shares.beyond.keys()].find(
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
    if (clock.now() - this.#lastEndAt < endWithinMs) return
    const { beyond } = this.#shares
    const [first] = beyond.values()
    if (!first) return
    const order = this.#orderIn(first.teamID)
    const next = order[0]!
    const isPressing = this.#growth.rate > 0 && (expected <= 0 || this.#freeBytes < levels.endBytes / 2)
    if (!next.isGrowing && !isPressing) {
      if (this.#pausing !== undefined || this.#pause(next.sandboxID)) return
    }
    // One is enough, unless the team is made of many small ones.
    let wanted = levels.endBytes - this.#freeBytes
    for (const { sandboxID } of order) {
      this.#end(sandboxID)
      wanted -= beyond.get(sandboxID)!.usedBytes
      if (wanted <= 0 || !isPressing) return
    }
  }

  /** The team's sandboxes beyond its share: those that still grow first, then those that grew, then the largest. */
  #orderIn(teamID: string): { sandboxID: string; isGrowing: boolean }[] {
    const { frozen } = this.#parts
    const grown = this.#growth.fastest(anyBytes)
    const rank = new Map(grown.map((one, index) => [one.sandboxID, { ...one, index }]))
    const isGrowing = (id: string) => rank.get(id)?.isGrowing === true && !frozen.has(id)
    const own = [...this.#shares.beyond].filter(([, share]) => share.teamID === teamID)
    return own
      .map(([sandboxID]) => ({
        sandboxID,
        isGrowing: isGrowing(sandboxID),
        index: rank.get(sandboxID)?.index ?? grown.length,
      }))
      .sort((a, b) => Number(b.isGrowing) - Number(a.isGrowing) || a.index - b.index)
  }

  #logFields(sandboxID: string): Partial<BeyondShare> & { sandboxID: string; freeBytes: number } {
    return { sandboxID, freeBytes: this.#freeBytes, ...this.#shares.beyond.get(sandboxID) }
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
    const values = this.#logFields(sandboxID)
    const attempt = async () => {
      this.#pausing = sandboxID
      try {
        if (!(await pause(sandboxID))) return
        this.#pauseDelays.noteSuccess(sandboxID)
        this.counts.paused++
        this.#note('paused', sandboxID)
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

  #end(sandboxID: string): void {
    const { end, clock, log } = this.#parts
    this.#lastEndAt = clock.now()
    if (this.#endUnowned(sandboxID)) return
    this.counts.ended++
    this.#note('ended', sandboxID)
    log.error(
      this.#logFields(sandboxID),
      'Memory is used up: Warren ends a sandbox that is beyond its share.',
    )
    end(sandboxID, 'memory_full').catch((error) => {
      log.error(
        { sandboxID, err: error },
        'A sandbox that uses up the memory could not be ended; Warren tries again.',
      )
    })
  }

  #endUnowned(sandboxID: string): boolean {
    const isEnded = this.#parts.endUnowned(sandboxID)
    if (isEnded) this.#note('ended', sandboxID)
    return isEnded
  }

  #note(act: Act, sandboxID: string): void {
    const teamID = this.#teamOf.get(sandboxID) ?? noTeam
    const why = whyTouched(this.#left(), this.#shares.teams, teamID)
    this.#parts.acts.note({ guard: 'memory', act, sandboxID, teamID, why })
  }

  #left(): string {
    return `${mebibytes(this.#freeBytes)} of memory were left`
  }
}

const frozenMessage =
  'The sandbox is frozen because the memory of this server is nearly used up. The sandbox has lost nothing: it continues ' +
  'by itself when there is memory again. Kill sandboxes that are no longer needed, or ask the operator for a bigger machine.'
