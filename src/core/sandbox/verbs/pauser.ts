/**
 * Pause. Whether a snapshot was taken and what the row says are two facts: once the sandbox has ended in favour of
 * its snapshot, the row only ever becomes `paused`. A pause that failed or was cut off is finished or undone by what
 * is really there; while that cannot be found out, the row stays `pausing` and the reconciler tries again.
 */
import type { Driver } from '../../ports/driver.ts'
import type { SandboxLauncher } from '../launch/launcher.ts'
import * as errors from '../row/errors.ts'
import { memoryGivenUpEntry, pausedEntry } from '../row/life-entries.ts'
import type { Sandbox, SandboxSnapshot } from '../row/sandbox.ts'
import type { SandboxInTurn } from '../row/sandbox-turns.ts'
import { pauseSnapshotName } from '../snapshots/snapshot-names.ts'
import type { SnapshotStore } from '../snapshots/snapshot-store.ts'
import { MemoryTries } from './memory-tries.ts'
import type { VerbParts } from './verb-parts.ts'

/** Delay before the next automatic pause of a sandbox that could not be paused at the end of its timeout. */
const autoPauseRetryMs = 60_000
/**
 * How often the automatic pause of a run is tried with its memory while a process may have a network namespace of its own.
 * Then it is paused without its memory, or it would run for ever.
 */
const maxMemoryTries = 5

export type PauserParts = VerbParts & {
  driver: Driver
  launcher: SandboxLauncher
  snapshots: SnapshotStore
}

export type PauseOptions = {
  memory: boolean
  /** Reject if the agent does not answer; without memory that always applies. */
  requireHealthyAgent: boolean
  /** The timeout is over; nobody asked for the pause. */
  isAutomatic: boolean
  /** For a drain: it is to run again until the end of its time, and its row says so from the first step on. */
  departs?: boolean
}

export class Pauser {
  readonly #parts: PauserParts
  readonly #memoryTries = new MemoryTries()

  constructor(parts: PauserParts) {
    this.#parts = parts
  }

  /**
   * Pauses a running sandbox; resolves once all is kept. Undefined when a kill has it or, for an automatic pause and for a
   * drain, when its time ends at another moment by now.
   */
  async pause(
    row: SandboxInTurn,
    options: PauseOptions,
    signal: AbortSignal,
  ): Promise<SandboxInTurn | undefined> {
    const { turns, snapshots } = this.#parts
    const { endAt } = row
    await this.#requireSpace(row, options.memory && snapshots.canTakeMemory).catch(async (error) => {
      if (options.isAutomatic) await this.#tryLater(row)
      throw error
    })
    await this.#parts.arrivals.require(row, signal)
    const fence = options.isAutomatic || options.departs ? { endAt } : {}
    const pausing = await turns.transition(row, 'pausing', options.departs ? { runUntil: endAt } : {}, fence)
    return (
      pausing && snapshots.protecting(pauseSnapshotName(pausing), () => this.#pause(pausing, options, signal))
    )
  }

  /** A sandbox that is frozen for want of memory is paused only with its memory, because that frees memory. */
  async #requireSpace(row: SandboxInTurn, memory: boolean): Promise<void> {
    const { diskGuard, frozen } = this.#parts
    await diskGuard.requireForSnapshot(row, { memory, disk: false })
    const why = frozen.whyFrozen(row)
    if (why !== undefined && !memory) throw errors.sandboxIsFrozen(why)
  }

  /** Finishes or undoes a pause by the actual state. False if neither the sandbox nor its snapshot exists. */
  async repair(row: SandboxInTurn, changes: { endAt?: number } = {}): Promise<boolean> {
    const { driver, launcher, snapshots } = this.#parts
    if (!row.handle) return false
    const name = pauseSnapshotName(row)
    const found = await driver.recover(row.handle)
    const snapshot = await snapshots.find(name)
    const rest = { name, agentUnresponsive: false }
    if (found === 'gone') {
      if (!snapshot) return false
      await launcher.stop(row.handle)
      await this.#markPaused(row, { ...rest, memory: snapshot.memory, frozen: false })
    } else if (found === 'frozen' && snapshot && !snapshot.memory && !snapshots.canTakeMemory) {
      await this.#markPaused(row, { ...rest, memory: true, frozen: true })
    } else {
      if (found === 'frozen') await launcher.thaw(row.handle)
      await snapshots.remove(name)
      await this.#goOn(row, changes)
    }
    return true
  }

  /** Lets the sandbox run past its timeout; it is paused when the disk has space for that. */
  async #tryLater({ sandboxID, runID }: SandboxInTurn): Promise<void> {
    const { sandboxes, clock } = this.#parts
    await sandboxes.setEnd({ sandboxID, runID }, clock.now() + autoPauseRetryMs, true)
  }

  async #pause(row: SandboxInTurn, options: PauseOptions, signal: AbortSignal): Promise<SandboxInTurn> {
    const { clock, log } = this.#parts
    const { sandboxID } = row
    let snapshot: SandboxSnapshot
    try {
      snapshot = await this.#takeSnapshot(row, options, signal)
    } catch (error) {
      // The kill owns the row, and removes the sandbox and the unfinished snapshot.
      if (signal.aborted) throw errors.killedWhile(sandboxID, 'paused')
      const changes = options.isAutomatic ? { endAt: clock.now() + autoPauseRetryMs } : {}
      await this.repair(row, changes).catch((cause) => {
        log.error(
          { sandboxID, err: cause },
          'A failed pause could not be undone; the reconciler tries again.',
        )
      })
      throw error
    }
    return this.#markPaused(row, snapshot)
  }

  async #takeSnapshot(row: Sandbox, options: PauseOptions, signal: AbortSignal): Promise<SandboxSnapshot> {
    const { launcher, snapshots, driver, frozen } = this.#parts
    const handle = row.handle!
    const name = pauseSnapshotName(row)
    // The agent of a frozen sandbox cannot answer, and counts as healthy.
    const isFrozen = frozen.whyFrozen(row) !== undefined
    const answers = !isFrozen && (await launcher.answers(handle, signal))
    // No round may have found yet what an earlier process of this server froze.
    const isStopped = isFrozen || (!answers && (await driver.recover(handle, signal)) === 'frozen')
    const isHealthy = answers || isStopped
    signal.throwIfAborted()
    if ((!isHealthy && options.requireHealthyAgent) || (!answers && !options.memory)) {
      throw errors.agentDoesNotAnswer(row.sandboxID)
    }
    let memory = options.memory && snapshots.canTakeMemory
    if (memory && isHealthy && !isStopped) memory = await this.#canKeepMemory(row, options, signal)
    signal.throwIfAborted()
    if (options.departs) await launcher.closeRouteToDepart(row)
    else launcher.closeRoute(row)
    signal.throwIfAborted()
    const staysFrozen = options.memory && !snapshots.canTakeMemory && driver.capabilities.freeze
    const afterwards = staysFrozen ? 'stay-frozen' : 'end'
    await snapshots.takeSnapshot(handle, name, { memory, afterwards, lasting: true }, signal)
    return { name, memory: memory || staysFrozen, frozen: staysFrozen, agentUnresponsive: !isHealthy }
  }

  /** Rejects if the memory could not be restored. False if that has kept this run from its automatic pause for too long. */
  async #canKeepMemory(row: Sandbox, { isAutomatic }: PauseOptions, signal: AbortSignal): Promise<boolean> {
    const { launcher, clock, appendLog, log } = this.#parts
    const { sandboxID, runID } = row
    const networks = await launcher.findOtherNetworks(row, signal)
    if (networks === 'none') return true
    signal.throwIfAborted()
    const isLast = isAutomatic && this.#memoryTries.add(runID, clock.now()) >= maxMemoryTries
    if (!isLast) throw errors.memoryDiscarded(sandboxID, networks)
    appendLog(sandboxID, memoryGivenUpEntry(clock.now(), networks))
    log.warn({ sandboxID, networks }, 'A sandbox whose time is over is paused without its memory.')
    return false
  }

  async #markPaused(row: SandboxInTurn, newSnapshot: SandboxSnapshot): Promise<SandboxInTurn> {
    const { turns, clock, appendLog, onSnapshotTaken, log } = this.#parts
    const { sandboxID } = row
    const endAt = clock.now()
    const timeLeftMs = row.endAt - endAt
    const snapshot = timeLeftMs > 0 ? { ...newSnapshot, timeLeftMs } : newSnapshot
    const changes = { snapshot, handle: snapshot.frozen ? row.handle : null, endAt }
    const paused = await turns.transition(row, 'paused', changes).catch((cause) => {
      throw errors.pauseNotRecorded(sandboxID, cause)
    })
    // A kill came first: it waits for this and then removes the snapshot.
    if (!paused) throw await turns.overtaken(row, 'paused')
    appendLog(sandboxID, pausedEntry(changes.endAt, snapshot))
    log.info({ sandboxID, ...snapshot }, 'sandbox paused')
    onSnapshotTaken()
    return paused
  }

  /** Moves the row of a sandbox that was not paused back to `running`. */
  async #goOn(row: SandboxInTurn, changes: { endAt?: number }): Promise<void> {
    const { turns, launcher, onRunning } = this.#parts
    const running = await turns.transition(row, 'running', changes)
    if (!running) return
    await launcher.open(running)
    onRunning(running)
  }
}
