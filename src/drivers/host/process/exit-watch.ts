/**
 * Notices the end of sandboxes. One system call checks all of them, so it is done a few times a second, at no
 * noticeable cost.
 */
import type { SandboxExit } from '../../../core/ports/driver.ts'
import { delay, systemClock } from '../../../lib/clock.ts'
import type { Layout } from '../record/layout.ts'
import type { SandboxRecord } from '../record/records.ts'
import type { Cgroups } from './cgroups.ts'
import { explainExit } from './explain-exit.ts'
import { openPidfds, type Pidfds } from './pidfd.ts'

type Watched = {
  record: SandboxRecord
  pid: number
  fd: number | undefined
  /** The kernel's counters some time before the end. A counter that has grown since is the reason of the end. */
  before: Counted
  /** Replaces `before` at the next call of `noteShortages`. */
  latest: Counted & { at: number }
  /** The sandbox has ended, and the reason is being read. */
  hasEnded: boolean
}

/** Numbers of kills for lack of memory, and of rejected processes and threads. */
type Counted = { memoryKills: number; forkRefusals: number }

const lookEveryMs = 200
/** Longer than the seconds that may pass from the first killed or rejected process to the end of the sandbox. */
const notedEveryMs = 10_000
/** Number of tries to read a status: it is unknown for a moment while the process is being reaped. */
const statusTries = 10
const statusTryEveryMs = 20

export class ExitWatch {
  readonly #cgroups: Cgroups
  readonly #layout: Layout
  readonly #log: (message: string, cause?: unknown) => void
  readonly #needsThreads: (record: SandboxRecord) => boolean
  readonly #listeners = new Set<(exit: SandboxExit) => void>()
  readonly #watched = new Map<string, Watched>()
  #pidfds: Pidfds | undefined
  #cancelLook: (() => void) | undefined

  constructor(parts: {
    cgroups: Cgroups
    layout: Layout
    log: (message: string, cause?: unknown) => void
    /** True if the sandbox ends when the host rejects a thread; in other sandboxes only a program gets an error. */
    needsThreads: (record: SandboxRecord) => boolean
  }) {
    this.#needsThreads = parts.needsThreads
    this.#cgroups = parts.cgroups
    this.#layout = parts.layout
    this.#log = parts.log
  }

  onExit(listener: (exit: SandboxExit) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** The sandboxes that are watched now. */
  get records(): SandboxRecord[] {
    return [...this.#watched.values()].map(({ record }) => record)
  }

  watches({ sandboxID, runID }: SandboxRecord): boolean {
    return this.#watched.get(sandboxID)?.record.runID === runID
  }

  /** The first process of a watched and living sandbox; undefined says nothing. */
  livePid(record: SandboxRecord): number | undefined {
    const watched = this.#watched.get(record.sandboxID)
    if (!watched || watched.record.runID !== record.runID) return undefined
    if (watched.fd === undefined || watched.hasEnded) return undefined
    return this.#pidfds!.ended([watched.fd]).length === 0 ? watched.pid : undefined
  }

  /** A failure to watch does not fail the sandbox: the next check of the sandbox finds its end. */
  async watch(record: SandboxRecord, pid: number): Promise<void> {
    const { sandboxID } = record
    if (this.watches(record)) return
    this.unwatch(sandboxID)
    try {
      this.#pidfds ??= openPidfds('The end of sandboxes cannot be noticed at once')
      const none = { memoryKills: 0, forkRefusals: 0, at: systemClock.now() }
      const fd = this.#pidfds.open(pid)
      const watched: Watched = { record, pid, fd, before: none, latest: none, hasEnded: false }
      this.#watched.set(sandboxID, watched)
      this.#lookLater()
      watched.before = watched.latest = await this.#count(sandboxID)
    } catch (error) {
      this.#log(`The end of sandbox ${sandboxID} will not be noticed at once`, error)
    }
  }

  /** Not called for sandboxes that the driver itself ends. */
  unwatch(sandboxID: string): void {
    const watched = this.#watched.get(sandboxID)
    this.#watched.delete(sandboxID)
    if (watched?.fd !== undefined && !watched.hasEnded) this.#pidfds!.close(watched.fd)
  }

  /** So that the end of a sandbox is not attributed to a kill or a refused process long before. */
  async noteShortages(sandboxID: string): Promise<void> {
    const watched = this.#watched.get(sandboxID)
    if (!watched || systemClock.now() - watched.latest.at < notedEveryMs) return
    const counted = await this.#count(sandboxID)
    watched.before = watched.latest
    watched.latest = counted
  }

  close(): void {
    this.#cancelLook?.()
    this.#cancelLook = undefined
    for (const sandboxID of [...this.#watched.keys()]) this.unwatch(sandboxID)
  }

  #lookLater(): void {
    this.#cancelLook ??= systemClock.after(lookEveryMs, () => {
      this.#cancelLook = undefined
      this.#look()
      if (this.#watched.size > 0) this.#lookLater()
    })
  }

  #look(): void {
    const all = [...this.#watched.values()].filter(({ hasEnded }) => !hasEnded)
    const ended = new Set(this.#pidfds!.ended(all.flatMap(({ fd }) => fd ?? [])))
    for (const watched of all) {
      // Without a descriptor, the process had ended before it could be watched.
      if (watched.fd === undefined || ended.has(watched.fd)) void this.#report(watched)
    }
  }

  async #report(watched: Watched): Promise<void> {
    const { sandboxID, runID } = watched.record
    const { fd } = watched
    watched.hasEnded = true
    const status = fd === undefined ? undefined : await this.#status(fd, watched.pid)
    const counted = await this.#count(sandboxID).catch((error) => {
      this.#log(
        `The counters that tell whether sandbox ${sandboxID} ended for lack of memory or processes could not be read`,
        error,
      )
      return watched.before
    })
    if (fd !== undefined) this.#pidfds!.close(fd)
    // The driver may have begun to end it meanwhile, and perhaps started it again.
    if (this.#watched.get(sandboxID) !== watched) return
    this.#watched.delete(sandboxID)
    const shortage = {
      memory: counted.memoryKills > watched.before.memoryKills,
      processes: this.#needsThreads(watched.record) && counted.forkRefusals > watched.before.forkRefusals,
    }
    const exit = { sandboxID, runID, ...explainExit(status, shortage) }
    for (const listener of this.#listeners) listener(exit)
  }

  async #count(sandboxID: string): Promise<Watched['latest']> {
    const group = this.#layout.cgroup(sandboxID)
    const [memoryKills, forkRefusals] = await Promise.all([
      this.#cgroups.memoryKills(group),
      this.#cgroups.forkRefusals(group),
    ])
    return { memoryKills, forkRefusals, at: systemClock.now() }
  }

  async #status(fd: number, pid: number): Promise<number | undefined> {
    for (let attempt = 0; attempt < statusTries; attempt++) {
      const status = this.#pidfds!.exitStatus(fd, pid)
      if (status !== undefined) return status
      await delay(statusTryEveryMs)
    }
    return undefined
  }
}
