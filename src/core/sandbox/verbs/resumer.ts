/**
 * Resume. The row names its snapshot until the sandbox runs again. A failed resume returns to `paused`, with the snapshot as it was if a
 * copy of it is left on the disk or in the object store. After a crash the actual state of the sandbox decides; while that is unknown, the
 * row stays `resuming` and the reconciler tries again.
 */
import { type AppError, shownText } from '../../../lib/app-error.ts'
import { newUUID } from '../../../lib/ids.ts'
import type { DriverHandle } from '../../ports/driver.ts'
import { arrivingExpiryMs } from '../../ports/memory-load.ts'
import type { TeamLimits } from '../../team/team.ts'
import type { TemplateBuild } from '../../template/template.ts'
import type { TemplateStore } from '../../template/template-store.ts'
import type { Admission } from '../capacity/admission.ts'
import { LaunchLeftover } from '../launch/launch-failure.ts'
import type { SnapshotRef } from '../launch/launcher.ts'
import * as errors from '../row/errors.ts'
import { memoryLostEntry, resumedEntry } from '../row/life-entries.ts'
import type { RemoteRun, Sandbox, SandboxSnapshot } from '../row/sandbox.ts'
import type { SandboxInTurn } from '../row/sandbox-turns.ts'
import type { BytesSource } from '../snapshots/bytes-source.ts'
import { SnapshotSources } from '../snapshots/snapshot-sources.ts'
import type { PauserParts } from './pauser.ts'

type ResumerParts = PauserParts & {
  admission: Admission
  templates: TemplateStore
  /** Fetches snapshots that are not on this machine; undefined without an object store. */
  fetcher: Pick<BytesSource, 'fetchPaused' | 'storedOf'> | undefined
}

type ResumeOptions = {
  timeoutMs: number
  /** False: boot from the files even if the snapshot has memory. */
  memory: boolean
}

/** Start and end of the previous run. */
type Times = Pick<Sandbox, 'startedAt' | 'endAt'>

/** Where the memory comes from that had not arrived when the sandbox was fetched. Undefined: nothing is missing. */
type FindRest = () => Promise<RemoteRun | undefined>

const nothingArrives: FindRest = async () => undefined

/** A start that has its turn later fetches an arriving snapshot again. Half of the time is for the start itself. */
const startWithinMs = arrivingExpiryMs / 2

export class Resumer {
  readonly #parts: ResumerParts
  readonly #sources: SnapshotSources

  constructor(parts: ResumerParts) {
    this.#parts = parts
    this.#sources = new SnapshotSources(parts)
  }

  /** Resumes a paused sandbox. Undefined if a kill or another node has it. */
  async resume(
    row: SandboxInTurn,
    limits: TeamLimits,
    options: ResumeOptions,
    signal: AbortSignal,
  ): Promise<SandboxInTurn | undefined> {
    const { admission, diskGuard } = this.#parts
    const { sandboxID } = row
    diskGuard.require(row.teamID)
    const memory = options.memory && row.snapshot?.memory === true
    if (memory && row.snapshot?.agentUnresponsive) throw errors.pausedUnresponsive(sandboxID)
    return this.#withSnapshot(row, memory, signal, async (findRest) => {
      // A frozen sandbox still holds its GPUs.
      const demand = row.snapshot?.frozen ? { ...row, gpuCount: 0 } : row
      const ended = await admission.enter(demand, signal).catch((error) => {
        throw signal.aborted ? errors.killedWhile(sandboxID, 'resumed') : error
      })
      return this.#resume(row, limits, { ...options, memory, findRest }, signal).finally(ended)
    })
  }

  /**
   * Fetches the snapshot before the row moves, because until then the row says where it is. Holds it, because
   * another node may have owned it. `work` asks where the rest of the memory comes from once the start has its turn.
   */
  async #withSnapshot<T>(
    row: SandboxInTurn,
    memory: boolean,
    signal: AbortSignal,
    work: (findRest: FindRest) => Promise<T>,
  ): Promise<T> {
    const { fetcher, snapshots, clock } = this.#parts
    if (!fetcher || !row.snapshot || row.snapshot.frozen) return work(nothingArrives)
    return snapshots.protecting(row.snapshot.name, async () => {
      const source = await this.#sources.find(row, { memory })
      if (source.kind !== 'store') return work(nothingArrives)
      const fetch = () => fetcher.fetchPaused(row, { memory, stored: source.stored }, signal)
      const fetchedAt = clock.now()
      const arrivesFrom = await fetch()
      return work(async () =>
        arrivesFrom && clock.now() - fetchedAt > startWithinMs ? fetch() : arrivesFrom,
      )
    })
  }

  async #resume(
    paused: SandboxInTurn,
    limits: TeamLimits,
    { timeoutMs, memory, findRest }: ResumeOptions & { findRest: FindRest },
    signal: AbortSignal,
  ): Promise<SandboxInTurn | undefined> {
    const { turns, arrivals, clock } = this.#parts
    const arrivesFrom = await findRest()
    const startedAt = clock.now()
    // A drain has paused the sandbox, and its client expects it to run until `runUntil`.
    const endAt = Math.max(startedAt + timeoutMs, paused.runUntil ?? 0)
    const snapshot = arrivesFrom && { ...paused.snapshot!, arrivesFrom }
    const changes = { runID: newUUID(), startedAt, endAt, ...(snapshot && { snapshot }) }
    const result = await turns.resumeWithinLimits(paused, limits, changes)
    if ('exceeded' in result) throw errors.teamLimitReached(result.exceeded, limits)
    if (!result.resumed) return undefined
    arrivals.begin(result.resumed)
    await this.#start(result.resumed, paused, memory, signal)
    return this.#markRunning(result.resumed, memory)
  }

  /**
   * Finishes or undoes a resume by the actual state of the sandbox. False if neither the sandbox nor its
   * snapshot exists.
   */
  async repairResuming(row: SandboxInTurn, signal: AbortSignal): Promise<boolean> {
    const { driver, launcher, arrivals, clock } = this.#parts
    const found = row.handle ? await driver.recover(row.handle) : 'gone'
    const before = { startedAt: row.startedAt, endAt: row.startedAt }
    if (found === 'gone') return this.#goBack(row, before, 'a resume was cut off after it had run on')
    try {
      arrivals.begin(row)
      if (found === 'frozen') await launcher.goOn(row, signal)
      await launcher.handOver(row, await this.#buildOf(row), row.handle!, row.sandboxID, signal)
    } catch (error) {
      // The agent may only be busy. Once the timeout of this run is over, nobody waits for it any more.
      if (clock.now() < row.endAt || signal.aborted) throw error
      // It stands still as it was paused, and has its memory.
      if (row.snapshot?.frozen && (await driver.recover(row.handle!)) === 'frozen') {
        await this.#backToPaused(row, row.snapshot, before)
        return true
      }
      if (await this.#goBack(row, before, 'its agent did not answer after a resume')) return true
      throw error
    }
    await this.#markRunning(row, row.snapshot?.memory === true)
    return true
  }

  /** Corrects the snapshot in the row. False if neither the frozen sandbox nor its snapshot exists. */
  async repairPaused(row: SandboxInTurn): Promise<boolean> {
    const { driver, launcher, turns } = this.#parts
    const found = row.handle ? await driver.recover(row.handle) : 'gone'
    if (row.snapshot?.frozen && found !== 'gone') {
      if (found === 'running') await this.#freezeAgain(row.handle!, row.snapshot)
      return true
    }
    const source = await this.#sources.find(row, { memory: true })
    if (source.kind === 'none') return false
    if (row.handle) await launcher.stop(row.handle)
    if (source.kind === 'store') return true
    const remaining = this.#remaining(row, source, 'the machine went down')
    if (remaining) await turns.setSnapshot(row, remaining)
    return true
  }

  /**
   * Freezes a sandbox again that runs although its row says that it is frozen: something thawed it and
   * removed its snapshot.
   */
  async #freezeAgain(handle: DriverHandle, { name }: SandboxSnapshot): Promise<void> {
    const { snapshots } = this.#parts
    await snapshots.protecting(name, async () => {
      await snapshots.remove(name)
      await snapshots.takeSnapshot(handle, name, { memory: false, afterwards: 'stay-frozen', lasting: true })
    })
  }

  async #start(row: SandboxInTurn, before: Times, memory: boolean, signal: AbortSignal): Promise<void> {
    const { turns, launcher, arrivals, log } = this.#parts
    const { sandboxID } = row
    const { frozen } = row.snapshot!
    let overtaken: AppError | undefined
    const onStart = async (handle: DriverHandle) => {
      if (await turns.saveHandle(row, handle)) return
      // This node was forgotten, and another one may start the sandbox: the launcher stops this copy at once.
      overtaken = await turns.overtaken(row, 'resumed')
      throw overtaken
    }
    try {
      if (frozen && memory) return await launcher.goOn(row, signal)
      if (row.handle) await launcher.stop(row.handle)
      await this.#launch(row, memory, signal, onStart)
    } catch (error) {
      arrivals.end(row)
      if (signal.aborted) throw errors.killedWhile(sandboxID, 'resumed')
      if (overtaken) throw overtaken
      if (!(error instanceof LaunchLeftover)) {
        await this.#undo(row, before, memory).catch((cause) => {
          log.error(
            { sandboxID, err: cause },
            'A failed resume could not be undone; the reconciler tries again.',
          )
        })
      }
      const isPaused = await turns.isPaused(row)
      throw errors.resumeFailed(sandboxID, error, { detail: shownText(error), isPaused })
    }
  }

  /**
   * Undoes a resume whose sandbox is gone. A frozen sandbox that was thawed after all stays `resuming`,
   * and the reconciler finishes the resume.
   */
  async #undo(row: SandboxInTurn, before: Times, memory: boolean): Promise<void> {
    if (row.snapshot!.frozen && memory) {
      const found = await this.#parts.driver.recover(row.handle!)
      if (found === 'frozen') return this.#backToPaused(row, row.snapshot!, before)
      if (found === 'running') return
    }
    await this.#goBack(row, before, 'a resume failed after it had run on')
  }

  async #launch(
    row: SandboxInTurn,
    memory: boolean,
    signal: AbortSignal,
    onStart: (handle: DriverHandle) => Promise<void>,
  ): Promise<void> {
    const { sandboxID } = row
    const snapshot: SnapshotRef = { name: row.snapshot!.name, memory, keepSnapshot: false, sandboxID }
    await this.#parts.launcher.launch(row, await this.#buildOf(row), { snapshot }, signal, onStart)
  }

  async #markRunning(row: SandboxInTurn, memory: boolean): Promise<SandboxInTurn> {
    const { turns, launcher, snapshots, arrivals, clock, appendLog, onRunning, log } = this.#parts
    const { sandboxID } = row
    const startedAt = clock.now()
    const snapshot = row.snapshot!.arrivesFrom ? row.snapshot : null
    const changes = { snapshot, startedAt, endAt: startedAt + (row.endAt - row.startedAt) }
    // After the move no row names the snapshot, which still exists.
    const release = snapshots.protect(row.snapshot!.name)
    const running = await turns.transition(row, 'running', changes).catch((cause) => {
      release()
      throw errors.resumeNotRecorded(sandboxID, cause)
    })
    if (!running) {
      release()
      throw await turns.overtaken(row, 'resumed')
    }
    appendLog(sandboxID, resumedEntry(running, memory))
    await launcher.open(running).catch((error) => {
      // The reconciler opens the route later, and the sweep finds the snapshot.
      release()
      throw error
    })
    onRunning(running)
    log.info({ sandboxID, memory }, 'sandbox resumed')
    if (snapshot) {
      release()
      arrivals.track(running)
      return running
    }
    // Removed in the background, because the sandbox runs already.
    void snapshots
      .remove(row.snapshot!.name)
      .catch((error) => {
        log.warn({ sandboxID, err: error }, 'The snapshot of a resumed sandbox could not be removed.')
      })
      .finally(release)
    return running
  }

  /** Stops the started sandbox and returns to its snapshot. False if there is none any more. */
  async #goBack(row: SandboxInTurn, before: Times, why: string): Promise<boolean> {
    const { arrivals } = this.#parts
    const source = await this.#sources.find(row, { memory: true })
    if (source.kind === 'none') return false
    await this.#stopAll(row)
    if (source.kind === 'store') {
      await arrivals.returnToStored(row, source.stored, why)
      return true
    }
    const remaining = this.#remaining(row, source, why)
    if (remaining) await this.#backToPaused(row, remaining, before)
    else await this.#backToPaused(row, row.snapshot!, before, row.snapshot!.storedFrom)
    return true
  }

  /**
   * Stops what runs of the sandbox on this machine, also in a run that the row has forgotten, as the rows of a forgotten node do. Once the row says
   * `paused`, another node may start the sandbox.
   */
  async #stopAll({ sandboxID, handle }: SandboxInTurn): Promise<void> {
    const { driver, launcher } = this.#parts
    if (handle) await launcher.stop(handle)
    for (const found of await driver.list()) {
      if (found.sandboxID !== sandboxID) continue
      if (found.unreadable) throw found.unreadable
      await launcher.stop(found.handle)
    }
  }

  /** `stored`: the snapshot is as it was before the resume, and the object store has it too. */
  async #backToPaused(
    row: SandboxInTurn,
    snapshot: SandboxSnapshot,
    { startedAt, endAt }: Times,
    stored?: RemoteRun,
  ): Promise<void> {
    const { storedFrom, arrivesFrom, ...local } = snapshot
    const changes = {
      snapshot: local,
      startedAt,
      endAt,
      handle: snapshot.frozen ? row.handle : null,
      ...(stored && { stored, runID: stored.runID }),
    }
    await this.#parts.turns.transition(row, 'paused', changes)
  }

  /** What is left of the snapshot of a sandbox that is gone. Undefined: all of it. */
  #remaining(
    { sandboxID, snapshot }: Sandbox,
    { memory, isWhole }: { memory: boolean; isWhole: boolean },
    why: string,
  ): SandboxSnapshot | undefined {
    const { clock, appendLog } = this.#parts
    const { frozen, memory: hadMemory } = snapshot!
    if (!hadMemory) return isWhole ? undefined : snapshot!
    if (memory && !frozen) return undefined
    appendLog(sandboxID, memoryLostEntry(clock.now(), why))
    return { ...snapshot!, memory: false, frozen: false }
  }

  async #buildOf({ buildID }: Sandbox): Promise<TemplateBuild> {
    const build = await this.#parts.templates.findBuild(buildID)
    if (build) return build
    throw errors.buildIsGone(buildID)
  }
}
