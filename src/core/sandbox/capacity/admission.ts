/**
 * Decides when a sandbox may start: when the machine has memory, CPU and disk for it, and not too many others
 * are starting. Starts that must wait are queued per team, and the teams take turns, so that one team's many
 * starts do not delay the others. A start that waited too long is rejected and can be tried again.
 */
import { AppError } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { GpuCapacity } from '../../ports/gpu.ts'
import type { Sandbox } from '../row/sandbox.ts'

/** The actual machine. */
export interface MachineCapacity {
  readonly cpuCount: number
  readonly memoryMB: number
  /** Memory that programs can still get without swapping. */
  availableMemoryMB(): Promise<number>
}

export type AdmissionSettings = {
  /** How many times the machine's memory and CPUs may be allocated to sandboxes. */
  memoryOvercommit: number
  cpuOvercommit: number
  /** Memory that must stay available after a start. */
  minFreeMemoryMB: number
  startsAtOnce: number
  waitMs: number
  /** Bytes of disk that must stay free after a start, if that is more than a start itself needs. */
  minFreeDiskBytes?: number
}

type PromisedSizes = { cpuCount: number; memoryMB: number }

type AdmissionParts = {
  machine: MachineCapacity
  freeBytes: () => Promise<number>
  sandboxes: {
    sumActive(): Promise<PromisedSizes>
    /** Of this machine. */
    sumActiveByTeam(): Promise<(PromisedSizes & { teamID: string })[]>
  }
  /** Memory that must stay available after a start of this team, if that is less than for others. */
  minFreeMemoryMB?: (teamID: string) => number
  /** The same for the disk, in bytes. */
  minFreeDiskBytes?: (teamID: string) => number | undefined
  spare: SpareSandboxes
  /** Called when a start has waited too long and is rejected. `reason` is a sentence. */
  onRejected?: (teamID: string, reason: string) => void
  /** Undefined: this machine has no GPU for sandboxes. */
  gpus: () => GpuCapacity | undefined
  settings: AdmissionSettings
  clock: Clock
}

/**
 * Sandboxes without an owner. They count like others, and are given up as soon as a start needs their
 * resources.
 */
interface SpareSandboxes {
  /** CPU and memory allocated to them. */
  sum(): { cpuCount: number; memoryMB: number }
  /** Stops up to `count` of them. False if there are none left. */
  giveUp(count: number): Promise<boolean>
}

type StartDemand = Pick<Sandbox, 'teamID' | 'cpuCount' | 'memoryMB' | 'gpuCount'>

type StartSizes = Omit<StartDemand, 'teamID'> & { teamID?: string | undefined }

type Waiter = { request: StartDemand; start: () => void; reason: string | undefined }

/** How often to look again while the machine is full, even if no start of this process has ended. */
const lookAgainMs = 500
/** Disk space for the files of a start and the sandbox's first writes. */
const diskForStartBytes = 512 * 1024 ** 2
const retryAfterSeconds = 5

export class Admission {
  readonly #parts: AdmissionParts
  /** By team; the team whose turn is next comes first. */
  readonly #waiting = new Map<string, Waiter[]>()
  readonly #starting = new Set<StartSizes>()
  #isAdmitting = false
  #isStale = false
  #cancelLook: (() => void) | undefined

  constructor(parts: AdmissionParts) {
    this.#parts = parts
  }

  get startsAtOnce(): number {
    return this.#parts.settings.startsAtOnce
  }

  /** Number of sandboxes that wait for their turn to start. */
  get waiting(): number {
    return [...this.#waiting.values()].reduce((total, { length }) => total + length, 0)
  }

  /**
   * Resolves when the sandbox may start. Call the returned function when the start has ended, successfully or
   * not.
   */
  async enter(request: StartDemand, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    await this.#wait(request, signal)
    return () => this.#end(request)
  }

  /**
   * For a start that nobody waits for: admitted only if it takes nothing from starts that somebody waits for,
   * and if `leaveMB` of memory stay available beyond the minimum. Undefined if that is not possible now.
   */
  async tryEnter({ cpuCount, memoryMB }: StartSizes, leaveMB: number): Promise<(() => void) | undefined> {
    const request = { cpuCount, memoryMB }
    if (this.isBusy || (await this.#shortage(request, { leaveMB })) || this.isBusy) return undefined
    this.#starting.add(request)
    return () => this.#end(request)
  }

  /**
   * CPU and memory that can be allocated beside the active sandboxes, and the number of sandboxes that start
   * or wait to.
   */
  capacity(active: StartSizes): { freeCPU: number; freeMemoryMB: number; starting: number } {
    const { machine, settings } = this.#parts
    const starting = [...this.#starting, ...[...this.#waiting.values()].flat().map(({ request }) => request)]
    const sum = (key: 'cpuCount' | 'memoryMB') =>
      starting.reduce((total, one) => total + one[key], active[key])
    return {
      freeCPU: machine.cpuCount * settings.cpuOvercommit - sum('cpuCount'),
      freeMemoryMB: machine.memoryMB * settings.memoryOvercommit - sum('memoryMB'),
      starting: starting.length,
    }
  }

  /** True if a start of this size would not have to wait for others to end. */
  async hasCapacityFor(request: StartSizes): Promise<boolean> {
    return this.#gpuShortage(request) === undefined && (await this.#shortage(request)) === undefined
  }

  /** True if the machine is short of disk, or of memory beyond the minimum plus `leaveMB`. */
  async isShort(leaveMB = 0): Promise<boolean> {
    return (await this.#shortage({ cpuCount: 0, memoryMB: 0 }, { leaveMB })) !== undefined
  }

  /** True if starts wait for their turn, or occupy all CPUs. */
  get isBusy(): boolean {
    return this.#waiting.size > 0 || this.#starting.size >= this.#parts.machine.cpuCount
  }

  #end(request: StartSizes): void {
    this.#starting.delete(request)
    this.#admit()
  }

  #wait(request: StartDemand, signal: AbortSignal): Promise<void> {
    const { clock, settings } = this.#parts
    return new Promise((resolve, reject) => {
      const leave = () => {
        cancelTimeout()
        signal.removeEventListener('abort', abort)
        this.#remove(waiter)
      }
      const waiter: Waiter = {
        request,
        reason: undefined,
        start: () => {
          leave()
          resolve()
        },
      }
      const abort = () => {
        leave()
        reject(signal.reason)
      }
      const cancelTimeout = clock.after(settings.waitMs, () => {
        leave()
        const reason = waiter.reason ?? this.#busy()
        this.#parts.onRejected?.(request.teamID, reason)
        reject(cannotStartNow(reason, settings.waitMs))
      })
      signal.addEventListener('abort', abort, { once: true })
      this.#waiting.set(request.teamID, [...(this.#waiting.get(request.teamID) ?? []), waiter])
      this.#admit()
    })
  }

  /** Runs one round at a time. A change during a round triggers another. */
  #admit(): void {
    this.#isStale = true
    if (this.#isAdmitting) return
    this.#isAdmitting = true
    void this.#admitAll()
  }

  async #admitAll(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false
      while (await this.#admitOne()) {}
    }
    this.#isAdmitting = false
    this.#cancelLook?.()
    this.#cancelLook =
      this.#waiting.size === 0 ? undefined : this.#parts.clock.after(lookAgainMs, () => this.#admit())
  }

  /** Starts the first waiter that fits, in the order of the teams' turns. False if nobody can start now. */
  async #admitOne(): Promise<boolean> {
    for (const [teamID, waiters] of [...this.#waiting]) {
      if (this.#starting.size >= this.startsAtOnce) return false
      const waiter = this.#firstWithGpu(waiters)
      if (!waiter) continue
      waiter.reason = await this.#shortageWithoutSpare(waiter.request)
      if (waiter.reason !== undefined || !this.#waiting.get(teamID)?.includes(waiter)) continue
      this.#starting.add(waiter.request)
      waiter.start()
      this.#passTurn(teamID)
      return true
    }
    return false
  }

  /** A start that waits for a GPU delays no other start of its team, and no spare sandbox is given up for it. */
  #firstWithGpu(waiters: readonly Waiter[]): Waiter | undefined {
    return waiters.find((waiter) => {
      const reason = this.#gpuShortage(waiter.request)
      waiter.reason = reason ?? waiter.reason
      return reason === undefined
    })
  }

  /** Gives up spare sandboxes until the start fits, twice as many each time, because somebody waits for it. */
  async #shortageWithoutSpare(request: StartSizes): Promise<string | undefined> {
    for (let count = 1; ; count *= 2) {
      const reason = await this.#shortage(request)
      if (reason === undefined) return undefined
      if (!(await this.#parts.spare.giveUp(count))) return this.#shortage(request, { isFair: true })
    }
  }

  /**
   * Returns why the machine cannot carry the start now and leave `leaveMB` beyond the minimum, as a sentence. `isFair`: a
   * team below its part of the machine may start nevertheless.
   * A value that cannot be read does not block a start; the others count.
   */
  async #shortage(request: StartSizes, { leaveMB = 0, isFair = false } = {}): Promise<string | undefined> {
    const { machine, sandboxes, settings, freeBytes, minFreeMemoryMB } = this.#parts
    const teamID = isFair ? request.teamID : undefined
    // Read before the rows: a start that ends in between is counted twice for a moment, but never missed.
    const starting = [...this.#starting]
    const [active, availableMB, diskBytes] = await Promise.all([
      sandboxes.sumActive().catch(() => ({ cpuCount: 0, memoryMB: 0 })),
      machine.availableMemoryMB().catch(() => Number.POSITIVE_INFINITY),
      freeBytes().catch(() => Number.POSITIVE_INFINITY),
    ])
    const promised = await this.#promiseShortage({ ...request, teamID }, active, starting)
    if (promised !== undefined) return promised
    const ownMinimumMB = teamID === undefined ? undefined : minFreeMemoryMB?.(teamID)
    const minimumMB = Math.min(settings.minFreeMemoryMB, ownMinimumMB ?? Number.POSITIVE_INFINITY)
    if (availableMB < minimumMB + leaveMB) return 'The memory of this server is used up.'
    const ownDiskBytes = teamID === undefined ? undefined : this.#parts.minFreeDiskBytes?.(teamID)
    const minimumBytes = Math.max(diskForStartBytes, settings.minFreeDiskBytes ?? 0)
    if (diskBytes < Math.min(minimumBytes, ownDiskBytes ?? Number.POSITIVE_INFINITY))
      return 'The disk of this server is full.'
    return undefined
  }

  /**
   * If everything is promised, a team still gets what keeps it within an equal part. So others that promised themselves all
   * and use little do not lock it out, and all teams together exceed the limit by less than the limit.
   */
  async #promiseShortage(
    request: StartSizes,
    active: PromisedSizes,
    starting: readonly StartSizes[],
  ): Promise<string | undefined> {
    const { machine, spare, settings } = this.#parts
    const limits = {
      memoryMB: machine.memoryMB * settings.memoryOvercommit,
      cpuCount: machine.cpuCount * settings.cpuOvercommit,
    }
    const isTooMuch = (key: keyof PromisedSizes) =>
      active[key] + spare.sum()[key] + sumOf(starting, key) + request[key] > limits[key]
    const short = (['memoryMB', 'cpuCount'] as const).filter(isTooMuch)
    if (short.length === 0) return undefined
    const parts = request.teamID === undefined ? undefined : await this.#partOf(request.teamID, starting)
    const found = short.find((key) => !parts || parts.own[key] + request[key] > limits[key] / parts.teams)
    if (found === 'memoryMB') return 'All memory that this server may allocate to sandboxes is allocated.'
    if (found === 'cpuCount') return 'All CPUs that this server may allocate to sandboxes are allocated.'
    return undefined
  }

  /** What the team was promised, and the number of teams that have sandboxes here with it. Undefined: not known now. */
  async #partOf(
    teamID: string,
    starting: readonly StartSizes[],
  ): Promise<{ own: PromisedSizes; teams: number } | undefined> {
    const all = await this.#parts.sandboxes.sumActiveByTeam().catch(() => undefined)
    if (!all) return undefined
    const known = [...all, ...starting]
    const teams = new Set([teamID, ...known.flatMap((one) => one.teamID ?? [])]).size
    const own = known.filter((one) => one.teamID === teamID)
    return { own: { memoryMB: sumOf(own, 'memoryMB'), cpuCount: sumOf(own, 'cpuCount') }, teams }
  }

  /** A start that already holds its GPU counts twice until the start has ended; no start is ever missed. */
  #gpuShortage({ gpuCount = 0 }: StartSizes): string | undefined {
    if (gpuCount === 0) return undefined
    const { total, free } = this.#parts.gpus() ?? { total: 0, free: 0 }
    const left = free - [...this.#starting].reduce((sum, one) => sum + (one.gpuCount ?? 0), 0)
    if (left >= gpuCount) return undefined
    if (left <= 0) return `All ${total} GPUs of this server are in use.`
    return `${left} of ${total} GPUs of this server are free, and the sandbox needs ${gpuCount}.`
  }

  #remove(waiter: Waiter): void {
    const { teamID } = waiter.request
    const left = (this.#waiting.get(teamID) ?? []).filter((one) => one !== waiter)
    if (left.length > 0) this.#waiting.set(teamID, left)
    else this.#waiting.delete(teamID)
  }

  #passTurn(teamID: string): void {
    const waiters = this.#waiting.get(teamID)
    this.#waiting.delete(teamID)
    if (waiters) this.#waiting.set(teamID, waiters)
  }

  #busy(): string {
    return `This server is starting ${this.#starting.size} sandboxes, and others wait for their turn.`
  }
}

const sumOf = (all: readonly PromisedSizes[], key: keyof PromisedSizes): number =>
  all.reduce((total, one) => total + one[key], 0)

const cannotStartNow = (reason: string, waitedMs: number) =>
  new AppError(
    'unavailable',
    `${reason} The sandbox waited ${Math.round(waitedMs / 1000)} s for its turn and was not started; ` +
      `try again in ${retryAfterSeconds} s.`,
    { retry: { should: true, afterSeconds: retryAfterSeconds } },
  )
