/**
 * Keeps the disk of the machine from running full. Disks of sandboxes are promised, not reserved, so together they can
 * fill the machine's disk, and then every write fails: of the database, of volumes, of other teams' sandboxes. As space
 * runs short, the guard first rejects new work, then freezes sandboxes whose disks grow until there is space again, and
 * at last ends one, always of teams above their fair share of the disk. It reads all figures through its ports and does no I/O.
 */
import { AppError } from '../../../lib/app-error.ts'
import { canMeasureUse, type Driver } from '../../ports/driver.ts'
import type { DiskUse } from '../../ports/resource-use.ts'
import * as errors from '../row/errors.ts'
import type { Sandbox } from '../row/sandbox.ts'
import type { DiskLevels } from './disk-levels.ts'
import type { MeasuredSize } from './growth.ts'
import { mebibytes } from './guard-acts.ts'
import { GuardedResource, type GuardedResourceParts } from './guarded-resource.ts'
import type { SandboxTeams } from './sandbox-teams.ts'
import { divideByTeam, noTeam, type TeamShare } from './team-share.ts'

/** Real disk blocks that are freed when the disk is nearly full. */
export interface DiskReserve {
  /** Never rejects. */
  giveUp(): Promise<void>
  /** Allocates the blocks again. False: they were allocated already. */
  restore(): Promise<boolean>
  /** Whether any blocks are allocated. */
  isThere(): Promise<boolean>
}

type DiskGuardParts = GuardedResourceParts & {
  driver: Driver
  sandboxTeams: Pick<SandboxTeams, 'of'>
  /** Bytes on this disk that teams use outside of running sandboxes: snapshots and volumes. */
  teamBytes: () => Promise<ReadonlyMap<string, number>>
  /** Free bytes on the disk of the data folder. */
  freeBytes: () => Promise<number>
  /** Bytes of the free space that are promised to volumes. */
  promisedBytes: () => Promise<number>
  levels: DiskLevels
  reserve: DiskReserve
}

const mebibyte = 1024 * 1024
/** Minimum recent growth of a sandbox to be frozen: above half of the freeze level, and below it. */
const muchBytes = 4 * mebibyte
const anyBytes = 64 * 1024
/** Time after which the guard may end another sandbox, even if the end of the last one is not over. */
const endWithinMs = 3000

export class DiskGuard {
  readonly #parts: DiskGuardParts
  readonly #disk: GuardedResource
  /** Whether the disk was nearly full at the previous look. */
  #isEmpty = false

  constructor(parts: DiskGuardParts) {
    this.#parts = parts
    this.#disk = new GuardedResource(parts, {
      shortage: { guard: 'disk', frozenMessage, goesOn: 'the disk of the server has space again' },
      levels: parts.levels,
      look: () => this.#look(),
      closeLookMs: 200,
      farBytes: 8 * 1024 * mebibyte,
      lookAheadMs: 1000,
      endReason: 'disk_full',
      left: 'of disk space were left',
      lines,
    })
  }

  get counts(): Readonly<Record<'frozen' | 'ended', number>> {
    return this.#disk.counts
  }

  /** Number of sandboxes that are frozen because the disk is nearly full. */
  get frozenCount(): number {
    return this.#disk.frozenCount
  }

  /** Whether the disk is so full that nothing should write except to end sandboxes. */
  get isCritical(): boolean {
    return this.#disk.freeBytes < this.#parts.levels.freezeBytes
  }

  /** Each team's share at the last look, the one furthest above first. Empty while much is left. */
  get teamShares(): readonly TeamShare[] {
    return this.#disk.shares.teams
  }

  /** Starts to look at regular intervals, which are shorter when little space is left. */
  start(): void {
    this.#disk.loop.start()
  }

  close(): Promise<void> {
    return this.#disk.loop.close()
  }

  /** Measures once and acts on the result. Never rejects. */
  look(): Promise<void> {
    return this.#disk.loop.look()
  }

  /** True if other teams take more of the disk than this one does, or would with so many bytes more. */
  isBelowFairShare(teamID: string, bytes = 0): boolean {
    return this.#disk.isBelowFairShare(teamID, bytes)
  }

  /** Free bytes that must be left after a start of this team. Known from the last look, so it costs nothing. */
  minFreeBytes(teamID: string, bytes = 0): number {
    const { startBytes, fairStartBytes } = this.#parts.levels
    return this.isBelowFairShare(teamID, bytes) ? fairStartBytes : startBytes
  }

  /** Throws `no_space` if a new operation of the team that writes `bytes` would leave too little free space. */
  require(teamID: string, bytes = 0): void {
    const startBytes = this.minFreeBytes(teamID, bytes)
    const { freeBytes } = this.#disk
    if (freeBytes - bytes >= startBytes) return
    const needed = mebibytes(startBytes + bytes)
    this.#disk.noteRefusal(teamID, `and ${needed} were needed.`)
    throw new AppError(
      'no_space',
      `The disk of this server is nearly full: ${mebibytes(freeBytes)} are left, and ${needed} ` +
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
    if (this.#parts.frozen.hasRun(sandbox, this.#disk.shortage)) throw errors.sandboxIsFrozen(frozenMessage)
    const maxBytes = ((memory ? memoryMB : 0) + (disk ? diskMB : 0)) * mebibyte
    if (!handle || this.#disk.freeBytes - maxBytes >= this.#parts.levels.startBytes) return
    const used = await this.#parts.driver.stats(handle)
    this.require(teamID, (memory ? used.memoryUsedBytes : 0) + (disk ? used.diskUsedBytes : 0))
  }

  async #look(): Promise<void> {
    await this.#measure()
    this.#disk.reportShortage()
    await this.#act()
  }

  /** Until the new figures are all there, those of the look before decide together who may start something. */
  async #measure(): Promise<void> {
    const { driver, freeBytes, promisedBytes } = this.#parts
    const left = (await freeBytes()) - (await promisedBytes())
    if (!this.#disk.isNear(left) || !canMeasureUse(driver)) {
      this.#disk.freeBytes = left
      return this.#disk.forgetUses()
    }
    const uses = await driver.diskUse()
    this.#disk.measureGrowth(uses.map(sizeOf))
    const unwritten = uses.reduce((total, { unwrittenBytes }) => total + unwrittenBytes, 0)
    await this.#divide(uses.map(sizeOf), left - unwritten)
  }

  async #divide(sizes: readonly MeasuredSize[], freeBytes: number): Promise<void> {
    const { levels, sandboxTeams, teamBytes } = this.#parts
    const teamOf = await sandboxTeams.of(sizes.map(({ sandboxID }) => sandboxID))
    const other = await teamBytes()
    const disk = this.#disk
    disk.freeBytes = freeBytes
    disk.teamOf = teamOf
    const known = disk.usesOf(sizes)
    const sum = (all: readonly number[]) => all.reduce((total, bytes) => total + bytes, 0)
    const allBytes = sum(sizes.map(({ bytes }) => bytes))
    const unknownBytes = allBytes - sum(known.map(({ usedBytes }) => usedBytes))
    const total = freeBytes + allBytes + sum([...other.values()])
    disk.totalBytes = total
    const [sharedBytes, usableBytes] = [total - levels.startBytes, total - levels.thawBytes]
    disk.shares = divideByTeam(known, { sharedBytes, usableBytes, unknownBytes }, other)
  }

  /** The rank of the sandbox's team in the order of those above their shares. Undefined: the team is not above. */
  #rankOf(sandboxID: string): number | undefined {
    const { shares, teamOf } = this.#disk
    const teamID = teamOf.get(sandboxID)
    if (teamID === noTeam) return -1
    const rank = shares.teams.findIndex((team) => team.teamID === teamID)
    return rank >= 0 && shares.teams[rank]!.aboveBytes > 0 ? rank : undefined
  }

  async #act(): Promise<void> {
    const { levels, reserve } = this.#parts
    const { freeBytes, expectedBytes } = this.#disk
    if (freeBytes < levels.endBytes) return this.#makeSpace()
    this.#isEmpty = false
    if (expectedBytes < levels.freezeBytes) this.#stopGrowing()
    if (expectedBytes < levels.freezeBytes || freeBytes < levels.thawBytes)
      return this.#disk.letGoOn({ onlyBelow: true })
    // The reserve is restored before sandboxes continue, because they may fill the disk again.
    if (!(await reserve.isThere())) {
      if (freeBytes >= levels.thawBytes + levels.reserveBytes && (await reserve.restore()))
        this.#parts.log.info({}, 'The reserve of disk space is allocated again.')
      return
    }
    this.#disk.letGoOn({ onlyBelow: false })
  }

  /** Freezes all sandboxes that grow, of teams above their share, the fastest first. */
  #stopGrowing(): void {
    const isPressing = this.#disk.freeBytes < this.#parts.levels.freezeBytes / 2
    this.#disk.freezeGrowing(
      isPressing ? anyBytes : muchBytes,
      (sandboxID) => this.#rankOf(sandboxID) !== undefined,
    )
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
    if (clock.now() - this.#disk.lastEndAt < endWithinMs) return
    const grown = this.#disk.growth.fastest(anyBytes)
    const rankOf = (sandboxID: string) => this.#rankOf(sandboxID) ?? Number.POSITIVE_INFINITY
    const fastest = grown
      .filter(({ sandboxID }) => this.#rankOf(sandboxID) !== undefined)
      .sort((a, b) => rankOf(a.sandboxID) - rankOf(b.sandboxID))
    const growing = fastest.find(({ sandboxID, isGrowing }) => isGrowing && !frozen.has(sandboxID))
    // As long as half of this level is free, wait a moment for sandboxes that are being frozen.
    const hasMoment = this.#disk.freeBytes >= levels.endBytes / 2
    if (growing && hasMoment && frozen.isFreezing(growing.sandboxID)) return
    if (growing) return this.#disk.end(growing.sandboxID)
    if (await reserve.isThere()) {
      await reserve.giveUp()
      return void this.#parts.log.warn({}, 'The disk is full: Warren gives up its reserve of disk space.')
    }
    const first =
      fastest[0]?.sandboxID ?? (grown.length > 0 ? [...this.#disk.shares.beyond.keys()][0] : undefined)
    if (first !== undefined) this.#disk.end(first)
  }
}

const frozenMessage =
  'The sandbox is frozen because the disk of this server is nearly full. The sandbox has lost nothing: it continues by ' +
  'itself when there is space again. Kill sandboxes that are no longer needed, or ask the operator to free some space.'

const lines = {
  fails: 'The disk space could not be measured; Warren tries again every second.',
  short: 'The disk is nearly full: Warren starts nothing that takes disk space until more is free.',
  enough: 'The disk has enough free space again.',
  freezes: 'The disk is nearly full: a sandbox that writes is frozen.',
  continues: 'The disk has space again: a frozen sandbox continues.',
  ends: 'The disk is full: Warren ends a sandbox of the team that is furthest above its share.',
  cannotEnd: 'A sandbox that fills the disk could not be ended; Warren tries again.',
}

/** Bytes that have not reached the disk yet count as written. */
export const sizeOf = ({ sandboxID, allocatedBytes, unwrittenBytes }: DiskUse): MeasuredSize => ({
  sandboxID,
  bytes: allocatedBytes + unwrittenBytes,
  newBytes: unwrittenBytes,
})
