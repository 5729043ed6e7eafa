/**
 * Sandboxes that run while their memory still arrives from the object store. Until the row no longer says `arrivesFrom`,
 * the object store keeps the snapshot, and a sandbox that is gone returns to it: the row becomes what it was before the
 * resume.
 */
import { errorText } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import { canFillMemory, type Driver } from '../../ports/driver.ts'
import type { LogEntry } from '../../ports/logs.ts'
import type { SandboxLauncher } from '../launch/launcher.ts'
import * as errors from '../row/errors.ts'
import { returnedEntry } from '../row/life-entries.ts'
import type { RemoteRun, Sandbox } from '../row/sandbox.ts'
import type { SandboxInTurn, SandboxTurns } from '../row/sandbox-turns.ts'
import type { BytesSource } from '../snapshots/bytes-source.ts'
import type { SnapshotStore } from '../snapshots/snapshot-store.ts'

type ArrivalsParts = {
  turns: SandboxTurns
  clock: Clock
  /** Adds to the log of a sandbox in the background. */
  appendLog: (sandboxID: string, entry: LogEntry) => void
  log: Log
  driver: Driver
  launcher: Pick<SandboxLauncher, 'stop' | 'closeRoute'>
  snapshots: SnapshotStore
  /** Undefined without an object store. */
  fetcher: Pick<BytesSource, 'loadMemory'> | undefined
}

/** `hurriesFrom`: memory that nobody waits for arrives slowly before this time. */
type Load = { filled: Promise<void>; abort: AbortController; hurriesFrom: number }

/** The first commands after a start have the CPUs and the network for themselves. */
const firstCommandsMs = 1000

export class MemoryArrivals {
  readonly #parts: ArrivalsParts
  /** By run. */
  readonly #loads = new Map<string, Load>()
  /** Runs whose end of the load is recorded when it comes. */
  readonly #tracked = new Set<string>()
  readonly #work = new Set<Promise<void>>()
  #isClosing = false

  constructor(parts: ArrivalsParts) {
    this.#parts = parts
  }

  /** Starts to load the memory of this run, if some is missing. */
  begin(row: Sandbox): void {
    const { fetcher, clock } = this.#parts
    if (!row.snapshot?.arrivesFrom || this.#loads.has(row.runID) || !fetcher || this.#isClosing) return
    const abort = new AbortController()
    const load: Load = { filled: Promise.resolve(), abort, hurriesFrom: Number.POSITIVE_INFINITY }
    const isStarting = () => clock.now() < load.hurriesFrom
    load.filled = fetcher.loadMemory(row, { signal: abort.signal, isStarting })
    // Whoever waits for it sees the failure.
    load.filled.catch(() => {})
    this.#loads.set(row.runID, load)
  }

  /** Ends a load whose sandbox did not start, or is gone. */
  end({ runID }: Pick<Sandbox, 'runID'>): void {
    this.#loads.get(runID)?.abort.abort(new Error('the load was ended'))
    this.#loads.delete(runID)
  }

  /** Waits until the sandbox has all its memory, as a pause, a fork and a snapshot must. */
  async require(row: Sandbox, signal: AbortSignal): Promise<void> {
    if (!row.snapshot?.arrivesFrom) return
    const killed = Promise.withResolvers<never>()
    const abort = () => killed.reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    try {
      signal.throwIfAborted()
      await Promise.race([this.#untilArrived(row, 0), killed.promise])
    } catch (error) {
      signal.throwIfAborted()
      throw errors.memoryNotArrived(row.sandboxID, error)
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  async #untilArrived(row: Sandbox, hurriesFrom: number): Promise<void> {
    const { driver } = this.#parts
    this.begin(row)
    const load = this.#loads.get(row.runID)
    if (!load || !canFillMemory(driver)) throw new Error('this Warren cannot load memory')
    load.hurriesFrom = Math.min(load.hurriesFrom, hurriesFrom)
    await load.filled
    await driver.awaitMemory(row.handle!, load.abort.signal)
  }

  /** True if nothing is missing, or if the end of the load will be recorded. */
  isTracked({ runID, snapshot }: Sandbox): boolean {
    return !snapshot?.arrivesFrom || this.#tracked.has(runID)
  }

  /** Records in the background when the memory of a running sandbox is there, or that it cannot be loaded. */
  track(row: Sandbox): void {
    const { log } = this.#parts
    const { sandboxID, runID } = row
    if (this.isTracked(row) || this.#isClosing) return
    this.#tracked.add(runID)
    const work = this.#track(row)
      .catch((error) => {
        if (!this.#isClosing)
          log.error(
            { sandboxID, err: error },
            'The end of a load could not be recorded; every round tries again.',
          )
      })
      .finally(() => {
        this.#tracked.delete(runID)
        this.#loads.delete(runID)
        this.#work.delete(work)
      })
    this.#work.add(work)
  }

  async #track(seen: Sandbox): Promise<void> {
    const { turns, driver, clock, log } = this.#parts
    const { sandboxID, runID } = seen
    let failure: unknown
    try {
      await this.#untilArrived(seen, clock.now() + firstCommandsMs)
    } catch (error) {
      failure = error
    }
    if (this.#isClosing) return
    const isFilled = await this.#loads.get(runID)?.filled.then(
      () => true,
      () => false,
    )
    await turns.acquire(sandboxID, async ({ row }) => {
      if (row?.runID !== runID || row.state !== 'running' || !row.snapshot?.arrivesFrom) return
      if (failure === undefined) return this.#recordArrived(row)
      // The load has succeeded, and gVisor does not say that it has everything: only a sandbox that is gone goes back.
      if (isFilled && (await driver.recover(row.handle!)) !== 'gone') throw failure
      log.error({ sandboxID, err: failure }, 'The memory of a resumed sandbox could not be loaded.')
      await this.returnToStored(row, row.snapshot.arrivesFrom, errorText(failure))
    })
  }

  async #recordArrived(row: SandboxInTurn): Promise<void> {
    const { turns, snapshots, log } = this.#parts
    const { sandboxID, snapshot } = row
    const release = snapshots.protect(snapshot!.name)
    try {
      if (!(await turns.forgetArrival(row))) return
      log.info({ sandboxID }, 'All memory of a resumed sandbox has arrived.')
      await snapshots.remove(snapshot!.name)
    } finally {
      release()
    }
  }

  /** Stops the sandbox and makes its row what it was before the resume: paused, with its snapshot in the object store. */
  async returnToStored(row: SandboxInTurn, stored: RemoteRun, why: string): Promise<void> {
    const { turns, launcher, snapshots, clock, appendLog, log } = this.#parts
    const { arrivesFrom, storedFrom, ...snapshot } = row.snapshot!
    const { sandboxID } = row
    launcher.closeRoute(row)
    this.end(row)
    if (row.handle) await launcher.stop(row.handle)
    await snapshots.remove(snapshot.name)
    const at = clock.now()
    const paused = await turns.transition(row, 'paused', {
      runID: stored.runID,
      stored,
      snapshot,
      handle: null,
      endAt: at,
    })
    // A kill came first, and ends the sandbox.
    if (!paused) return
    appendLog(sandboxID, returnedEntry(at, why))
    log.warn(
      { sandboxID, why },
      'A sandbox that was resumed from the object store went back to the snapshot there.',
    )
  }

  /** Ends all loads. Sandboxes keep running, and wait where they lack memory until the next start of Warren. */
  async close(): Promise<void> {
    this.#isClosing = true
    for (const { abort } of this.#loads.values()) abort.abort(new Error('closing'))
    await Promise.all(this.#work)
  }
}
