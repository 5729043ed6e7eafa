/**
 * Keeps the disk of the machine from running full. Disks of sandboxes are promised, not reserved, so together they can
 * fill the machine's disk, and then every write fails: of the database, of volumes, of other teams' sandboxes. As space
 * runs short, the guard first rejects new work, then freezes sandboxes whose disks grow until there is space again, and
 * at last ends one, always of teams above their fair share of the disk. It reads all figures through its ports and does no I/O.
 */
import { AppError } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import { canMeasureUse, type Driver } from '../../ports/driver.ts'
import type { DiskUse } from '../../ports/resource-use.ts'
import * as errors from '../row/errors.ts'
import type { EndReason, Sandbox } from '../row/sandbox.ts'
import type { DiskLevels } from './disk-levels.ts'
import type { FrozenSandboxes, Shortage } from './frozen-sandboxes.ts'
import { GrowthMeter, type MeasuredSize } from './growth.ts'
import { type Act, type GuardActs, mebibytes, whyTouched } from './guard-acts.ts'
import { GuardLoop } from './guard-loop.ts'
import type { SandboxTeams } from './sandbox-teams.ts'
import { divideByTeam, noShares, noTeam, type TeamShare, type TeamShares } from './team-share.ts'

/** Real disk blocks that are freed when the disk is nearly full. */
export interface DiskReserve {
  /** Never rejects. */
  giveUp(): Promise<void>
  /** Allocates the blocks again. False: they were allocated already. */
  restore(): Promise<boolean>
  /** Whether any blocks are allocated. */
  isThere(): Promise<boolean>
}

type DiskGuardParts = {
  driver: Driver
  frozen: FrozenSandboxes
  acts: Pick<GuardActs, 'note'>
  sandboxTeams: Pick<SandboxTeams, 'of'>
  /** Bytes on this disk that teams use outside of running sandboxes: snapshots and volumes. */
  teamBytes: () => Promise<ReadonlyMap<string, number>>
  /** Free bytes on the disk of the data folder. */
  freeBytes: () => Promise<number>
  /** Bytes of the free space that are promised to volumes. */
  promisedBytes: () => Promise<number>
  levels: DiskLevels
  reserve: DiskReserve
  /** Ends a sandbox if it runs. Resolves when the row says so; the clean-up continues in the background. */
  end: (sandboxID: string, reason: EndReason) => Promise<void>
  /** Ends a sandbox without a row, of the warm pool or of a build. False: the sandbox is neither. */
  endUnowned: (sandboxID: string) => boolean
  /** Called when space has become short, to prune caches. */
  onShort: () => void
  clock: Clock
  log: Log
}

const mebibyte = 1024 * 1024
const usualLookMs = 1000
const closeLookMs = 200
/** With more free space than this beyond the level for starts, the guard does not measure single sandboxes. */
const farBytes = 8 * 1024 * mebibyte
/** Freezing takes a while, so the bytes that sandboxes will write within this time count as written. */
const lookAheadMs = 1000
/** Minimum recent growth of a sandbox to be frozen: above half of the freeze level, and below it. */
const muchBytes = 4 * mebibyte
const anyBytes = 64 * 1024
/** Time after which the guard may end another sandbox, even if the end of the last one is not over. */
const endWithinMs = 3000

export class DiskGuard {
  readonly #parts: DiskGuardParts
  readonly #growth = new GrowthMeter()
  readonly #loop: GuardLoop
  readonly #shortage: Shortage = {
    guard: 'disk',
    frozenMessage,
    goesOn: 'the disk of the server has space again',
    keepsFrozen: () => this.#freeBytes < this.#parts.levels.thawBytes,
  }
  #freeBytes = Number.POSITIVE_INFINITY
  /** All that teams use and can still get. */
  #total = 0
  #shares: TeamShares = noShares
  #teamOf: ReadonlyMap<string, string> = new Map()
  #isShort = false
  /** Whether the disk was nearly full at the previous look. */
  #isEmpty = false
  #lastEndAt = Number.NEGATIVE_INFINITY
  /** Counted since this process started. */
  readonly counts = { frozen: 0, ended: 0 }

  constructor(parts: DiskGuardParts) {
    this.#parts = parts
    parts.frozen.add(this.#shortage)
    this.#loop = new GuardLoop({
      ...parts,
      work: () => this.#look(),
      everyMs: () => (this.#isNear() ? closeLookMs : usualLookMs),
      failure: 'The disk space could not be measured; Warren tries again every second.',
    })
  }

  /** Number of sandboxes that are frozen because the disk is nearly full. */
  get frozenCount(): number {
    return this.#parts.frozen.by(this.#shortage).length
  }

  /** Whether the disk is so full that nothing should write except to end sandboxes. */
  get isCritical(): boolean {
    return this.#freeBytes < this.#parts.levels.freezeBytes
  }

  /** Each team's share at the last look, the one furthest above first. Empty while much is left. */
  get teamShares(): readonly TeamShare[] {
    return this.#shares.teams
  }

  /** Starts to look at regular intervals, which are shorter when little space is left. */
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

  /** True if other teams take more of the disk than this one does, or would with so many bytes more. */
  isBelowFairShare(teamID: string, bytes = 0): boolean {
    const { teams } = this.#shares
    const parts = teams.length + (teams.some((team) => team.teamID === teamID) ? 0 : 1)
    const shared = this.#total - this.#parts.levels.startBytes
    return parts > 1 && this.usedBytes(teamID) + bytes < shared / parts
  }

  /** What the team used on this disk at the last look. */
  usedBytes(teamID: string): number {
    return this.#shares.teams.find((team) => team.teamID === teamID)?.usedBytes ?? 0
  }

  /** Free bytes that must be left after a start of this team. Known from the last look, so it costs nothing. */
  minFreeBytes(teamID: string, bytes = 0): number {
    const { startBytes, fairStartBytes } = this.#parts.levels
    return this.isBelowFairShare(teamID, bytes) ? fairStartBytes : startBytes
  }

  /** Throws `no_space` if a new operation of the team that writes `bytes` would leave too little free space. */
  require(teamID: string, bytes = 0): void {
    const startBytes = this.minFreeBytes(teamID, bytes)
    if (this.#freeBytes - bytes >= startBytes) return
    const needed = mebibytes(startBytes + bytes)
    const why = `${this.#left()}, and ${needed} were needed.`
    this.#parts.acts.note({ guard: 'disk', act: 'refused', teamID, why })
    throw new AppError(
      'no_space',
      `The disk of this server is nearly full: ${mebibytes(this.#freeBytes)} are left, and ${needed} ` +
        'are needed before a sandbox is created, resumed, paused or copied. Kill sandboxes that are no longer needed, ' +
        'delete snapshots, templates or volumes, or ask the operator for a bigger disk.',
      { retry: { should: false } },
    )
  }

  /** Throws like `require` if there is no space for a snapshot with the sandbox's memory, its copied disk, or both. */
  async requireForSnapshot(
    sandbox: Sandbox,
    { memory, disk }: { memory: boolean; disk: boolean },
  ): Promise<void> {
    const { handle, teamID, memoryMB, diskMB } = sandbox
    if (this.#parts.frozen.hasRun(sandbox, this.#shortage)) throw errors.sandboxIsFrozen(frozenMessage)
    const maxBytes = ((memory ? memoryMB : 0) + (disk ? diskMB : 0)) * mebibyte
    if (!handle || this.#freeBytes - maxBytes >= this.#parts.levels.startBytes) return
    const used = await this.#parts.driver.stats(handle)
    this.require(teamID, (memory ? used.memoryUsedBytes : 0) + (disk ? used.diskUsedBytes : 0))
  }

  async #look(): Promise<void> {
    await this.#measure()
    this.#reportShortage()
    await this.#act()
  }

  #isNear(freeBytes = this.#freeBytes): boolean {
    return this.frozenCount > 0 || freeBytes < this.#parts.levels.startBytes + farBytes
  }

  /** Until the new figures are all there, those of the look before decide together who may start something. */
  async #measure(): Promise<void> {
    const { driver, frozen, freeBytes, promisedBytes, clock } = this.#parts
    const left = (await freeBytes()) - (await promisedBytes())
    if (!this.#isNear(left) || !canMeasureUse(driver)) {
      this.#freeBytes = left
      this.#shares = noShares
      return this.#growth.clear()
    }
    const uses = await driver.diskUse()
    this.#growth.measure(uses.map(sizeOf), clock.now(), (sandboxID) => frozen.has(sandboxID))
    const unwritten = uses.reduce((total, { unwrittenBytes }) => total + unwrittenBytes, 0)
    await this.#divide(uses.map(sizeOf), left - unwritten)
  }

  async #divide(sizes: readonly MeasuredSize[], freeBytes: number): Promise<void> {
    const { levels, sandboxTeams, teamBytes } = this.#parts
    const teamOf = await sandboxTeams.of(sizes.map(({ sandboxID }) => sandboxID))
    const other = await teamBytes()
    this.#freeBytes = freeBytes
    this.#teamOf = teamOf
    const known = sizes.flatMap(({ sandboxID, bytes: usedBytes }) => {
      const teamID = this.#teamOf.get(sandboxID)
      const soonBytes = usedBytes + (this.#growth.rateOf(sandboxID) * lookAheadMs) / 1000
      return teamID === undefined ? [] : [{ sandboxID, teamID, usedBytes, soonBytes }]
    })
    const sum = (all: readonly number[]) => all.reduce((total, bytes) => total + bytes, 0)
    const allBytes = sum(sizes.map(({ bytes }) => bytes))
    const unknownBytes = allBytes - sum(known.map(({ usedBytes }) => usedBytes))
    this.#total = this.#freeBytes + allBytes + sum([...other.values()])
    const [sharedBytes, usableBytes] = [this.#total - levels.startBytes, this.#total - levels.thawBytes]
    this.#shares = divideByTeam(known, { sharedBytes, usableBytes, unknownBytes }, other)
  }

  /** The place of the sandbox's team in the order of those above their shares. Undefined: the team is not above. */
  #rankOf(sandboxID: string): number | undefined {
    const teamID = this.#teamOf.get(sandboxID)
    if (teamID === noTeam) return -1
    const rank = this.#shares.teams.findIndex((team) => team.teamID === teamID)
    return rank >= 0 && this.#shares.teams[rank]!.aboveBytes > 0 ? rank : undefined
  }

  #reportShortage(): void {
    const { levels, log, onShort } = this.#parts
    const isShort = this.#freeBytes < levels.startBytes
    const freeBytes = this.#freeBytes
    if (isShort && !this.#isShort) {
      const text = 'The disk is nearly full: Warren starts nothing that takes disk space until more is free.'
      log.warn({ freeBytes, wanted: levels.startBytes }, text)
      onShort()
    }
    if (!isShort && this.#isShort) log.info({ freeBytes }, 'The disk has enough free space again.')
    this.#isShort = isShort
  }

  async #act(): Promise<void> {
    const { levels, reserve } = this.#parts
    const expected = this.#freeBytes - (this.#growth.rate * lookAheadMs) / 1000
    if (this.#freeBytes < levels.endBytes) return this.#makeSpace()
    this.#isEmpty = false
    if (expected < levels.freezeBytes) this.#stopGrowing()
    if (expected < levels.freezeBytes || this.#freeBytes < levels.thawBytes) return this.#letGoOn(true)
    // The reserve is restored before sandboxes continue, because they may fill the disk again.
    if (!(await reserve.isThere())) {
      if (this.#freeBytes >= levels.thawBytes + levels.reserveBytes && (await reserve.restore()))
        this.#parts.log.info({}, 'The reserve of disk space is allocated again.')
      return
    }
    this.#letGoOn(false)
  }

  /** `onlyBelow`: only sandboxes whose team is below its fair share now, because others have grown or it has given back. */
  #letGoOn(onlyBelow: boolean): void {
    const onGone = (sandboxID: string) => {
      this.#growth.forget(sandboxID)
      this.#note('continued', sandboxID)
      this.#parts.log.info({ sandboxID }, 'The disk has space again: a frozen sandbox continues.')
    }
    const mayContinue = (sandboxID: string) =>
      !onlyBelow || this.isBelowFairShare(this.#teamOf.get(sandboxID) ?? noTeam)
    this.#parts.frozen.letNextGoOn(this.#shortage, onGone, mayContinue)
  }

  /** Freezes all sandboxes that grow, of teams above their share, the fastest first. */
  #stopGrowing(): void {
    const isPressing = this.#freeBytes < this.#parts.levels.freezeBytes / 2
    const { frozen, log } = this.#parts
    for (const { sandboxID, lately } of this.#growth.fastest(isPressing ? anyBytes : muchBytes)) {
      if (this.#rankOf(sandboxID) === undefined) continue
      if (frozen.has(sandboxID) || this.#endUnowned(sandboxID)) continue
      frozen.freeze(sandboxID, this.#shortage, lately, () => {
        this.counts.frozen++
        this.#note('frozen', sandboxID)
        const values = { sandboxID, lately, freeBytes: this.#freeBytes }
        log.warn(values, 'The disk is nearly full: a sandbox that writes is frozen.')
      })
    }
  }

  /**
   * The disk is nearly full. Takes space back from teams above their share, the furthest first: ends a sandbox that still grows,
   * because it could not be frozen in time. If none grows, gives up the reserve; if that is used up too, ends the sandbox that
   * has recently written most, or the largest if only teams below their share still write.
   */
  async #makeSpace(): Promise<void> {
    const { reserve, clock, frozen, levels } = this.#parts
    const isFirst = !this.#isEmpty
    this.#isEmpty = true
    this.#stopGrowing()
    // Written bytes reach memory before the disk, so freezing may still be in time at the first look.
    if (isFirst) return
    if (clock.now() - this.#lastEndAt < endWithinMs) return
    const grown = this.#growth.fastest(anyBytes)
    const rankOf = (sandboxID: string) => this.#rankOf(sandboxID) ?? Number.POSITIVE_INFINITY
    const fastest = grown
      .filter(({ sandboxID }) => this.#rankOf(sandboxID) !== undefined)
      .sort((a, b) => rankOf(a.sandboxID) - rankOf(b.sandboxID))
    const growing = fastest.find(({ sandboxID, isGrowing }) => isGrowing && !frozen.has(sandboxID))
    // As long as half of this level is free, wait a moment for sandboxes that are being frozen.
    const hasMoment = this.#freeBytes >= levels.endBytes / 2
    if (growing && hasMoment && frozen.isFreezing(growing.sandboxID)) return
    if (growing) return this.#end(growing.sandboxID)
    if (await reserve.isThere()) {
      await reserve.giveUp()
      return void this.#parts.log.warn({}, 'The disk is full: Warren gives up its reserve of disk space.')
    }
    const first = fastest[0]?.sandboxID ?? (grown.length > 0 ? [...this.#shares.beyond.keys()][0] : undefined)
    if (first !== undefined) this.#end(first)
  }

  #end(sandboxID: string): void {
    const { end, clock, log } = this.#parts
    this.#lastEndAt = clock.now()
    if (this.#endUnowned(sandboxID)) return
    this.counts.ended++
    this.#note('ended', sandboxID)
    log.error(
      { sandboxID, freeBytes: this.#freeBytes },
      'The disk is full: Warren ends a sandbox of the team that is furthest above its share.',
    )
    end(sandboxID, 'disk_full').catch((error) => {
      log.error(
        { sandboxID, err: error },
        'A sandbox that fills the disk could not be ended; Warren tries again.',
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
    this.#parts.acts.note({ guard: 'disk', act, sandboxID, teamID, why })
  }

  #left(): string {
    return `${mebibytes(this.#freeBytes)} of disk space were left`
  }
}

const frozenMessage =
  'The sandbox is frozen because the disk of this server is nearly full. The sandbox has lost nothing: it continues by ' +
  'itself when there is space again. Kill sandboxes that are no longer needed, or ask the operator to free some space.'

/** Bytes that have not reached the disk yet count as written. */
export const sizeOf = ({ sandboxID, allocatedBytes, unwrittenBytes }: DiskUse): MeasuredSize => ({
  sandboxID,
  bytes: allocatedBytes + unwrittenBytes,
  newBytes: unwrittenBytes,
})
