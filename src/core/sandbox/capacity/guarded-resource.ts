/**
 * What the guards of the disk and of memory share: the figures of the last look, how often to look, and the acts on sandboxes
 * that use too much. Each guard measures its resource, and decides who is frozen or ended and when.
 */
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import type { EndReason } from '../row/sandbox.ts'
import type { FrozenSandboxes, Shortage } from './frozen-sandboxes.ts'
import { GrowthMeter, type MeasuredSize } from './growth.ts'
import { type Act, type GuardActs, mebibytes, whyTouched } from './guard-acts.ts'
import { GuardLoop } from './guard-loop.ts'
import { noShares, noTeam, type ResourceUse, type TeamShare, type TeamShares } from './team-share.ts'

export type GuardedResourceParts = {
  frozen: FrozenSandboxes
  acts: Pick<GuardActs, 'note'>
  /** Ends a sandbox if it runs. Resolves when the row says so; the clean-up continues in the background. */
  end: (sandboxID: string, reason: EndReason) => Promise<void>
  /** Ends a sandbox without a row, of the warm pool or of a build. False: the sandbox is neither. */
  endUnowned: (sandboxID: string) => boolean
  /** Called when the resource has become short, to free what can be made again. */
  onShort: () => void
  clock: Clock
  log: Log
}

type ResourceSettings = {
  shortage: Omit<Shortage, 'keepsFrozen'>
  levels: { startBytes: number; thawBytes: number }
  look: () => Promise<void>
  /** Delay between looks while little is left. */
  closeLookMs: number
  /** With more than this beyond the level for starts, the guard does not measure single sandboxes. */
  farBytes: number
  /** Freezing takes a while, so what sandboxes will use within this time counts as used. */
  lookAheadMs: number
  endReason: EndReason
  /** After a number of bytes, in the reason of an act: `of disk space were left`. */
  left: string
  /** Lines of the server's log. */
  lines: Record<'fails' | 'short' | 'enough' | 'freezes' | 'continues' | 'ends' | 'cannotEnd', string>
}

const usualLookMs = 1000

export class GuardedResource {
  readonly #parts: GuardedResourceParts
  readonly #settings: ResourceSettings
  readonly growth = new GrowthMeter()
  readonly shortage: Shortage
  readonly loop: GuardLoop
  freeBytes = Number.POSITIVE_INFINITY
  /** All that is used and can still be had. */
  totalBytes = 0
  shares: TeamShares = noShares
  teamOf: ReadonlyMap<string, string> = new Map()
  lastEndAt = Number.NEGATIVE_INFINITY
  #isShort = false
  /** Counted since this process started. */
  readonly counts = { frozen: 0, ended: 0 }

  constructor(parts: GuardedResourceParts, settings: ResourceSettings) {
    const { shortage, levels, look, closeLookMs, lines } = settings
    this.#parts = parts
    this.#settings = settings
    this.shortage = { ...shortage, keepsFrozen: () => this.freeBytes < levels.thawBytes }
    parts.frozen.add(this.shortage)
    this.loop = new GuardLoop({
      ...parts,
      work: look,
      everyMs: () => (this.isNear() ? closeLookMs : usualLookMs),
      failure: lines.fails,
    })
  }

  /** Number of sandboxes that are frozen because the resource is short. */
  get frozenCount(): number {
    return this.#parts.frozen.by(this.shortage).length
  }

  /** What will be free in a moment at the present pace. */
  get expectedBytes(): number {
    return this.freeBytes - (this.growth.rate * this.#settings.lookAheadMs) / 1000
  }

  isNear(freeBytes = this.freeBytes): boolean {
    const { levels, farBytes } = this.#settings
    return this.frozenCount > 0 || freeBytes < levels.startBytes + farBytes
  }

  /** What the team used at the last look. */
  usedBytes(teamID: string): number {
    return this.#shareOf(teamID)?.usedBytes ?? 0
  }

  /** True if other teams use more than this one does, or would with so many bytes more. A team without anything gets a part too. */
  isBelowFairShare(teamID: string, bytes = 0): boolean {
    const parts = this.shares.teams.length + (this.#shareOf(teamID) ? 0 : 1)
    const sharedBytes = this.totalBytes - this.#settings.levels.startBytes
    return parts > 1 && this.usedBytes(teamID) + bytes < sharedBytes / parts
  }

  /** Without single sandboxes: much is left. */
  forgetUses(): void {
    this.shares = noShares
    this.growth.clear()
  }

  measureGrowth(sizes: readonly MeasuredSize[]): void {
    const { frozen, clock } = this.#parts
    this.growth.measure(sizes, clock.now(), (sandboxID) => frozen.has(sandboxID))
  }

  /** What sandboxes use whose team is known, and will use in a moment. */
  usesOf(sizes: readonly MeasuredSize[]): ResourceUse[] {
    return sizes.flatMap(({ sandboxID, bytes: usedBytes }) => {
      const teamID = this.teamOf.get(sandboxID)
      const soonBytes = usedBytes + (this.growth.rateOf(sandboxID) * this.#settings.lookAheadMs) / 1000
      return teamID === undefined ? [] : [{ sandboxID, teamID, usedBytes, soonBytes }]
    })
  }

  reportShortage(): void {
    const { levels, lines } = this.#settings
    const { log, onShort } = this.#parts
    const { freeBytes } = this
    const isShort = freeBytes < levels.startBytes
    if (isShort && !this.#isShort) {
      log.warn({ freeBytes, wanted: levels.startBytes }, lines.short)
      onShort()
    }
    if (!isShort && this.#isShort) log.info({ freeBytes }, lines.enough)
    this.#isShort = isShort
  }

  /** Lets frozen sandboxes continue, one at a time; `onlyBelow`: those of teams below their fair share. */
  letGoOn({ onlyBelow }: { onlyBelow: boolean }): void {
    const onGone = (sandboxID: string) => {
      this.growth.forget(sandboxID)
      this.note('continued', sandboxID)
      this.#parts.log.info({ sandboxID }, this.#settings.lines.continues)
    }
    const mayContinue = (sandboxID: string) =>
      !onlyBelow || this.isBelowFairShare(this.teamOf.get(sandboxID) ?? noTeam)
    this.#parts.frozen.letNextGoOn(this.shortage, onGone, mayContinue)
  }

  /** Freezes the sandboxes that grew by so much lately, the fastest first, as far as the guard says that they may be. */
  freezeGrowing(minBytes: number, mayFreeze: (sandboxID: string) => boolean): void {
    const { frozen, log } = this.#parts
    for (const { sandboxID, lately } of this.growth.fastest(minBytes)) {
      if (!mayFreeze(sandboxID) || frozen.has(sandboxID) || this.#endUnowned(sandboxID)) continue
      frozen.freeze(sandboxID, this.shortage, lately, () => {
        this.counts.frozen++
        this.note('frozen', sandboxID)
        log.warn({ ...this.logFields(sandboxID), lately }, this.#settings.lines.freezes)
      })
    }
  }

  end(sandboxID: string): void {
    const { end, clock, log } = this.#parts
    const { lines, endReason } = this.#settings
    this.lastEndAt = clock.now()
    if (this.#endUnowned(sandboxID)) return
    this.counts.ended++
    this.note('ended', sandboxID)
    log.error(this.logFields(sandboxID), lines.ends)
    end(sandboxID, endReason).catch((error) => log.error({ sandboxID, err: error }, lines.cannotEnd))
  }

  note(act: Act, sandboxID: string): void {
    const teamID = this.teamOf.get(sandboxID) ?? noTeam
    const why = whyTouched(this.leftText(), this.shares.teams, teamID)
    this.#parts.acts.note({ guard: this.shortage.guard, act, sandboxID, teamID, why })
  }

  noteRefusal(teamID: string, why: string): void {
    this.#parts.acts.note({
      guard: this.shortage.guard,
      act: 'refused',
      teamID,
      why: `${this.leftText()}, ${why}`,
    })
  }

  logFields(sandboxID: string): Record<string, unknown> {
    return { sandboxID, freeBytes: this.freeBytes, ...this.shares.beyond.get(sandboxID) }
  }

  leftText(): string {
    return `${mebibytes(this.freeBytes)} ${this.#settings.left}`
  }

  #shareOf(teamID: string): TeamShare | undefined {
    return this.shares.teams.find((team) => team.teamID === teamID)
  }

  #endUnowned(sandboxID: string): boolean {
    const isEnded = this.#parts.endUnowned(sandboxID)
    if (isEnded) this.note('ended', sandboxID)
    return isEnded
  }
}
