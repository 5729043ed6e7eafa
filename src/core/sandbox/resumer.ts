/**
 * Resume. The row names its snapshot until the sandbox runs again. A resume that failed goes back to `paused` if
 * nothing of the start is left; otherwise, and after a crash, what is really there decides, and while that cannot be
 * found out the row stays `resuming` and the reconciler tries again.
 */
import { shownText } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import type { BytesFetcher } from '../archive/bytes-fetcher.ts'
import type { Snapshot } from '../driver.ts'
import type { TemplateStore } from '../stores.ts'
import type { TeamLimits } from '../team/team.ts'
import type { TemplateBuild } from '../template/template.ts'
import type { Admission } from './admission.ts'
import * as errors from './errors.ts'
import { LaunchLeftover, type SnapshotRef } from './launcher.ts'
import { memoryLostEntry, resumedEntry } from './life-entries.ts'
import type { PauserParts } from './pauser.ts'
import type { Sandbox, SandboxSnapshot } from './sandbox.ts'

export type ResumerParts = PauserParts & {
  admission: Admission
  templates: TemplateStore
  /** Brings snapshots that are not on this machine; undefined where there is no object store. */
  fetcher: Pick<BytesFetcher, 'bringPaused' | 'isArchived'> | undefined
}

export type ResumeOptions = {
  timeoutMs: number
  /** False: boot from the files even though the memory is there. */
  memory: boolean
  /** Its `runUntil`, where that is why it is resumed: whoever lets it stay paused meanwhile comes first. */
  markedUntil?: number | undefined
}

/** When the run before began and ended. */
type Times = Pick<Sandbox, 'startedAt' | 'endAt'>

export class Resumer {
  readonly #parts: ResumerParts

  constructor(parts: ResumerParts) {
    this.#parts = parts
  }

  /** Undefined when the sandbox is not paused in that run any more. */
  resume(seen: Sandbox, limits: TeamLimits, options: ResumeOptions): Promise<Sandbox | undefined> {
    const { ongoing, admission } = this.#parts
    const { sandboxID } = seen
    return ongoing.run(sandboxID, async (signal) => {
      const memory = options.memory && seen.snapshot?.memory === true
      if (memory && seen.snapshot?.agentUnresponsive) throw errors.pausedUnresponsive(sandboxID)
      return this.#withSnapshot(seen, memory, signal, async () => {
        const ended = await admission.enter(seen, signal).catch((error) => {
          throw signal.aborted ? errors.killedWhile(sandboxID, 'resumed') : error
        })
        return this.#resume(seen, limits, { ...options, memory }, signal).finally(ended)
      })
    })
  }

  /** Fetched before the row moves: until then it says where the snapshot is. Held, since another node may have had it. */
  async #withSnapshot<T>(
    seen: Sandbox,
    memory: boolean,
    signal: AbortSignal,
    work: () => Promise<T>,
  ): Promise<T> {
    const { fetcher, snapshots } = this.#parts
    if (!fetcher || !seen.snapshot) return work()
    return snapshots.holding(seen.snapshot.name, async () => {
      await fetcher.bringPaused(seen, { memory }, signal)
      return work()
    })
  }

  async #resume(
    seen: Sandbox,
    limits: TeamLimits,
    { timeoutMs, memory, markedUntil }: ResumeOptions,
    signal: AbortSignal,
  ): Promise<Sandbox | undefined> {
    const { sandboxes, clock } = this.#parts
    const { sandboxID, runID, runUntil } = seen
    const startedAt = clock.now()
    // A drain has paused what a client was told to run until then.
    const endAt = Math.max(startedAt + timeoutMs, runUntil ?? 0)
    const changes = { runID: newUUID(), startedAt, endAt }
    const at = { sandboxID, runID, ...(markedUntil !== undefined && { markedUntil }) }
    const result = await sandboxes.resumeWithinLimits(at, limits, changes)
    if ('exceeded' in result) throw errors.teamLimitReached(result.exceeded, limits)
    if (!result.moved) return undefined
    await this.#start(result.moved, seen, memory, signal)
    return this.#markRunning(result.moved, memory)
  }

  /** Finishes or undoes a resume by what is really there. False: neither the sandbox nor its snapshot is there. */
  async repairResuming(row: Sandbox, signal: AbortSignal): Promise<boolean> {
    const { driver, launcher, clock } = this.#parts
    const found = row.handle ? await driver.recover(row.handle) : 'gone'
    const before = { startedAt: row.startedAt, endAt: row.startedAt }
    if (found === 'gone') return this.#goBack(row, before, 'a resume was cut off after it had run on')
    try {
      if (found === 'paused') await launcher.thaw(row.handle!)
      await launcher.handOver(row, await this.#buildOf(row), row.handle!, row.sandboxID, signal)
    } catch (error) {
      // The agent may only be busy. Once the time of this run is over, nobody waits for it any more.
      if (clock.now() < row.endAt || signal.aborted) throw error
      if (await this.#goBack(row, before, 'its agent did not answer after a resume')) return true
      throw error
    }
    await this.#markRunning(row, row.snapshot?.memory === true)
    return true
  }

  /** Corrects what the row says about its snapshot. False: neither the frozen sandbox nor its snapshot is there. */
  async repairPaused(row: Sandbox): Promise<boolean> {
    const { driver, launcher, sandboxes, snapshots, fetcher } = this.#parts
    const found = row.handle ? await driver.recover(row.handle) : 'gone'
    if (row.snapshot?.frozen && found !== 'gone') return true
    const snapshot = row.snapshot && (await snapshots.find(row.snapshot.name))
    if (!snapshot) return (await fetcher?.isArchived(row)) ?? false
    if (row.handle) await launcher.stop(row.handle)
    const remaining = this.#remaining(row, snapshot, 'the machine went down')
    if (remaining !== row.snapshot) await sandboxes.setSnapshot(row.sandboxID, row.runID, remaining)
    return true
  }

  async #start(row: Sandbox, before: Times, memory: boolean, signal: AbortSignal): Promise<void> {
    const { launcher, log } = this.#parts
    const { sandboxID } = row
    const { frozen } = row.snapshot!
    try {
      if (frozen && memory) return await launcher.thaw(row.handle!, signal)
      if (row.handle) await launcher.stop(row.handle)
      await this.#launch(row, memory, signal)
    } catch (error) {
      if (signal.aborted) throw errors.killedWhile(sandboxID, 'resumed')
      if (!(error instanceof LaunchLeftover)) {
        await this.#undo(row, before, memory).catch((cause) => {
          log.error(
            { sandboxID, err: cause },
            'A failed resume could not be undone; the reconciler tries again.',
          )
        })
      }
      throw errors.resumeFailed(sandboxID, error, shownText(error))
    }
  }

  /** Nothing of the start is left. A frozen sandbox that was thawed after all stays `resuming`: the reconciler finishes it. */
  async #undo(row: Sandbox, before: Times, memory: boolean): Promise<void> {
    if (row.snapshot!.frozen && memory) {
      const found = await this.#parts.driver.recover(row.handle!)
      if (found === 'paused') return this.#backToPaused(row, row.snapshot!, before)
      if (found === 'running') return
    }
    await this.#goBack(row, before, 'a resume failed after it had run on')
  }

  async #launch(row: Sandbox, memory: boolean, signal: AbortSignal): Promise<void> {
    const { sandboxes, launcher } = this.#parts
    const { sandboxID, runID } = row
    const snapshot: SnapshotRef = { name: row.snapshot!.name, memory, keep: false, sandboxID }
    await launcher.launch(row, await this.#buildOf(row), { snapshot }, signal, async (handle) => {
      await sandboxes.saveHandle(sandboxID, runID, handle)
    })
  }

  async #markRunning(row: Sandbox, memory: boolean): Promise<Sandbox> {
    const { sandboxes, launcher, snapshots, clock, appendLog, onRunning, log } = this.#parts
    const { sandboxID, runID } = row
    const startedAt = clock.now()
    const changes = { snapshot: null, startedAt, endAt: startedAt + (row.endAt - row.startedAt) }
    const at = { sandboxID, runID, from: ['resuming'] as const }
    // From the move on no row names the snapshot any more, and it is still there.
    const release = snapshots.hold(row.snapshot!.name)
    const running = await sandboxes.move(at, 'running', changes).catch((cause) => {
      release()
      throw errors.resumeNotRecorded(sandboxID, cause)
    })
    if (!running) {
      release()
      throw errors.killedWhile(sandboxID, 'resumed')
    }
    appendLog(sandboxID, resumedEntry(running, memory))
    launcher.openRoute(running)
    onRunning(running)
    log.info({ sandboxID, memory }, 'sandbox resumed')
    // The sandbox runs: nobody need wait for this.
    void snapshots
      .remove(row.snapshot!.name)
      .catch((error) => {
        log.warn({ sandboxID, err: error }, 'The snapshot of a resumed sandbox could not be removed.')
      })
      .finally(release)
    return running
  }

  /** Ends what was started, and keeps the files as they are. False: there is no snapshot. */
  async #goBack(row: Sandbox, before: Times, why: string): Promise<boolean> {
    const { launcher, snapshots } = this.#parts
    const snapshot = row.snapshot && (await snapshots.find(row.snapshot.name))
    if (!snapshot) return false
    if (row.handle) await launcher.stop(row.handle)
    const remaining = this.#remaining(row, snapshot, why)
    await this.#backToPaused(row, remaining, before)
    return true
  }

  async #backToPaused(row: Sandbox, snapshot: SandboxSnapshot, { startedAt, endAt }: Times): Promise<void> {
    const { sandboxID, runID } = row
    const changes = { snapshot, startedAt, endAt, handle: snapshot.frozen ? row.handle : null }
    await this.#parts.sandboxes.move({ sandboxID, runID, from: ['resuming'] }, 'paused', changes)
  }

  /** What the row may still say of a sandbox of which only the snapshot is there. */
  #remaining({ sandboxID, snapshot }: Sandbox, { memory }: Snapshot, why: string): SandboxSnapshot {
    const { clock, appendLog } = this.#parts
    if (!snapshot!.memory || (memory && !snapshot!.frozen)) return snapshot!
    appendLog(sandboxID, memoryLostEntry(clock.now(), why))
    return { ...snapshot!, memory: false, frozen: false }
  }

  async #buildOf({ buildID }: Sandbox): Promise<TemplateBuild> {
    const build = await this.#parts.templates.findBuild(buildID)
    if (build) return build
    throw errors.buildIsGone(buildID)
  }
}
