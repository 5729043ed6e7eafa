/**
 * Pause and resume. While a sandbox is paused its row names what was kept of it; from a step that was cut off,
 * `repair` sees by what is really there whether it was done, and finishes it or takes it back.
 */
import { errorText } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import type { Driver, Snapshot } from '../driver.ts'
import type { LogEntry } from '../logs.ts'
import type { SandboxStore, TemplateStore } from '../stores.ts'
import type { TeamLimits } from '../team/team.ts'
import type { TemplateBuild } from '../template/template.ts'
import * as errors from './errors.ts'
import type { SandboxLauncher, SnapshotRef } from './launcher.ts'
import { memoryLostEntry, pausedEntry, resumedEntry } from './life-entries.ts'
import type { OngoingWork } from './ongoing-work.ts'
import type { Sandbox, SandboxSnapshot } from './sandbox.ts'
import type { SnapshotStore } from './snapshot-store.ts'

/** A sandbox whose time is over but that could not be paused goes on for so long before the next try. */
const autoPauseRetryMs = 60_000

export type PauserParts = {
  sandboxes: SandboxStore
  templates: TemplateStore
  driver: Driver
  launcher: SandboxLauncher
  snapshots: SnapshotStore
  ongoing: OngoingWork
  clock: Clock
  appendLog: (sandboxID: string, entry: LogEntry) => void
  /** Called with each sandbox that runs again. */
  onRunning: (sandbox: Sandbox) => void
  log: Log
}

export type PauseOptions = {
  memory: boolean
  /** Refuse to pause when the agent does not answer; without memory that is so anyway. */
  requireHealthyAgent: boolean
  /** Nobody asked for it: its time is over. */
  isAutomatic: boolean
}

export type ResumeOptions = {
  timeoutMs: number
  /** False: boot from the files even though the memory is there. */
  memory: boolean
}

/** The snapshot that a pause of this run makes. */
const pauseSnapshotName = ({ sandboxID, runID }: Sandbox): string => `${sandboxID}-${runID}`

export class Pauser {
  readonly #parts: PauserParts

  constructor(parts: PauserParts) {
    this.#parts = parts
  }

  /** Resolves once all is kept. Undefined when the sandbox is not running in that run any more. */
  pause(seen: Sandbox, wish: PauseOptions): Promise<Sandbox | undefined> {
    const { sandboxes, ongoing, snapshots } = this.#parts
    const { sandboxID, runID } = seen
    return ongoing.run(sandboxID, async (signal) => {
      const row = await sandboxes.move({ sandboxID, runID, from: ['running'] }, 'pausing')
      return row && snapshots.holding(pauseSnapshotName(row), () => this.#pause(row, wish, signal))
    })
  }

  /** Undefined when the sandbox is not paused in that run any more. */
  resume(seen: Sandbox, limits: TeamLimits, wish: ResumeOptions): Promise<Sandbox | undefined> {
    const { sandboxes, ongoing, clock } = this.#parts
    const { sandboxID, runID } = seen
    return ongoing.run(sandboxID, async (signal) => {
      const memory = wish.memory && seen.snapshot?.memory === true
      if (memory && seen.snapshot?.agentUnresponsive) throw errors.pausedUnresponsive(sandboxID)
      const startedAt = clock.now()
      const changes = { runID: newUUID(), startedAt, endAt: startedAt + wish.timeoutMs }
      const result = await sandboxes.resumeWithinLimits({ sandboxID, runID }, limits, changes)
      if ('exceeded' in result) throw errors.teamLimitReached(result.exceeded, limits)
      return result.moved && this.#resume(result.moved, seen, memory, signal)
    })
  }

  /** What a pause or a resume may have left on disk for a sandbox that ends. */
  async forget(row: Sandbox): Promise<void> {
    const { snapshots } = this.#parts
    await snapshots.remove(pauseSnapshotName(row))
    if (row.snapshot) await snapshots.remove(row.snapshot.name)
  }

  /** Puts right a row that a crash left in the middle, or whose sandbox is not as it says. False: it is lost. */
  async repair(row: Sandbox): Promise<boolean> {
    switch (row.state) {
      case 'pausing':
        return this.#repairPausing(row)
      case 'paused':
        return this.#repairPaused(row)
      case 'resuming':
        return this.#repairResuming(row)
      default:
        return false
    }
  }

  async #pause(row: Sandbox, wish: PauseOptions, signal: AbortSignal): Promise<Sandbox> {
    const { launcher, snapshots, driver } = this.#parts
    const handle = row.handle!
    const name = pauseSnapshotName(row)
    try {
      const isHealthy = await launcher.answers(handle)
      if (!isHealthy && (wish.requireHealthyAgent || !wish.memory)) {
        throw errors.agentDoesNotAnswer(row.sandboxID)
      }
      signal.throwIfAborted()
      launcher.closeRoute(row)
      const frozen = wish.memory && !snapshots.keepMemory && driver.capabilities.freeze
      const memory = wish.memory && snapshots.keepMemory
      const afterwards = frozen ? 'stay-frozen' : 'end'
      await snapshots.take(handle, name, { memory, afterwards, lasting: true }, signal)
      const kept = { name, memory: memory || frozen, frozen, agentUnresponsive: !isHealthy }
      return await this.#markPaused(row, kept)
    } catch (error) {
      const endAt = wish.isAutomatic ? { endAt: this.#parts.clock.now() + autoPauseRetryMs } : {}
      await this.#goOn(row, endAt)
      throw signal.aborted ? errors.killedWhile(row.sandboxID, 'paused') : error
    }
  }

  async #markPaused(row: Sandbox, kept: SandboxSnapshot): Promise<Sandbox> {
    const { sandboxes, clock, appendLog, log } = this.#parts
    const { sandboxID, runID } = row
    const changes = { snapshot: kept, handle: kept.frozen ? row.handle : null, endAt: clock.now() }
    const paused = await sandboxes.move({ sandboxID, runID, from: ['pausing'] }, 'paused', changes)
    // A kill came first: it waits for this and then removes what was kept.
    if (!paused) throw errors.killedWhile(sandboxID, 'paused')
    appendLog(sandboxID, pausedEntry(changes.endAt, kept))
    log.info({ sandboxID, ...kept }, 'sandbox paused')
    return paused
  }

  /** The sandbox was not paused: it is as it was before. */
  async #goOn(row: Sandbox, changes: { endAt?: number } = {}): Promise<boolean> {
    const { sandboxes, launcher, onRunning } = this.#parts
    const { sandboxID, runID } = row
    const running = await sandboxes.move({ sandboxID, runID, from: ['pausing'] }, 'running', changes)
    if (!running) return false
    launcher.openRoute(running)
    onRunning(running)
    return true
  }

  async #resume(row: Sandbox, before: Sandbox, memory: boolean, signal: AbortSignal): Promise<Sandbox> {
    const { launcher } = this.#parts
    const kept = row.snapshot!
    let left: SandboxSnapshot = kept
    try {
      if (kept.frozen && memory) {
        await launcher.thaw(row.handle!)
        return await this.#markRunning(row, memory)
      }
      if (row.handle) await launcher.stop(row.handle)
      if (kept.frozen) left = { ...kept, memory: false, frozen: false }
      await this.#launch(row, memory, signal, () => {
        // From here on the memory matches the files no more.
        left = { ...kept, memory: false, frozen: false }
      })
      return await this.#markRunning(row, memory)
    } catch (error) {
      await this.#backToPaused(row, left, before)
      if (signal.aborted) throw errors.killedWhile(row.sandboxID, 'resumed')
      throw errors.resumeFailed(row.sandboxID, error, errorText(error))
    }
  }

  async #launch(row: Sandbox, memory: boolean, signal: AbortSignal, onStarted: () => void): Promise<void> {
    const { sandboxes, launcher } = this.#parts
    const { sandboxID, runID } = row
    const snapshot: SnapshotRef = { name: row.snapshot!.name, memory, keep: false, sandboxID }
    await launcher.launch(row, await this.#buildOf(row), { snapshot }, signal, async (handle) => {
      onStarted()
      await sandboxes.saveHandle(sandboxID, runID, handle)
    })
  }

  async #markRunning(row: Sandbox, memory: boolean): Promise<Sandbox> {
    const { sandboxes, launcher, snapshots, clock, appendLog, onRunning, log } = this.#parts
    const { sandboxID, runID } = row
    const startedAt = clock.now()
    const changes = { snapshot: null, startedAt, endAt: startedAt + (row.endAt - row.startedAt) }
    const running = await sandboxes.move({ sandboxID, runID, from: ['resuming'] }, 'running', changes)
    if (!running) throw errors.killedWhile(sandboxID, 'resumed')
    appendLog(sandboxID, resumedEntry(running, memory))
    launcher.openRoute(running)
    onRunning(running)
    log.info({ sandboxID, memory }, 'sandbox resumed')
    // The sandbox runs: nobody need wait for this.
    void snapshots.remove(row.snapshot!.name).catch((error) => {
      log.warn({ sandboxID, err: error }, 'what was kept of a pause could not be removed; the sweep will')
    })
    return running
  }

  async #backToPaused(row: Sandbox, kept: SandboxSnapshot, before: Pick<Sandbox, 'startedAt' | 'endAt'>) {
    const { sandboxes } = this.#parts
    const { sandboxID, runID } = row
    const { startedAt, endAt } = before
    const changes = { snapshot: kept, startedAt, endAt, handle: kept.frozen ? row.handle : null }
    await sandboxes.move({ sandboxID, runID, from: ['resuming'] }, 'paused', changes)
  }

  async #repairPausing(row: Sandbox): Promise<boolean> {
    const { driver, launcher, snapshots } = this.#parts
    if (!row.handle) return false
    const name = pauseSnapshotName(row)
    const [there, kept] = [await driver.recover(row.handle), await snapshots.find(name)]
    const rest = { name, agentUnresponsive: false }
    if (there === 'gone') {
      if (!kept) return false
      await launcher.stop(row.handle)
      await this.#markPaused(row, { ...rest, memory: kept.memory, frozen: false })
    } else if (there === 'paused' && kept && !kept.memory && !snapshots.keepMemory) {
      await this.#markPaused(row, { ...rest, memory: true, frozen: true })
    } else {
      if (there === 'paused') await launcher.thaw(row.handle)
      await snapshots.remove(name)
      await this.#goOn(row)
    }
    return true
  }

  async #repairPaused(row: Sandbox): Promise<boolean> {
    const { driver, launcher, sandboxes, snapshots } = this.#parts
    const there = row.handle ? await driver.recover(row.handle) : 'gone'
    if (row.snapshot?.frozen && there !== 'gone') return true
    const kept = row.snapshot && (await snapshots.find(row.snapshot.name))
    if (!kept) return false
    if (row.handle) await launcher.stop(row.handle)
    const left = this.#whatIsLeft(row, kept)
    if (left !== row.snapshot) await sandboxes.setSnapshot(row.sandboxID, row.runID, left)
    return true
  }

  async #repairResuming(row: Sandbox): Promise<boolean> {
    const { driver, launcher, snapshots } = this.#parts
    const there = row.handle ? await driver.recover(row.handle) : 'gone'
    const before = { startedAt: row.startedAt, endAt: row.startedAt }
    if (there === 'gone') {
      const kept = row.snapshot && (await snapshots.find(row.snapshot.name))
      if (!kept) return false
      if (row.handle) await launcher.stop(row.handle)
      await this.#backToPaused(row, this.#whatIsLeft(row, kept), before)
      return true
    }
    try {
      if (there === 'paused') await launcher.thaw(row.handle!)
      const build = await this.#buildOf(row)
      const deadline = AbortSignal.timeout(30_000)
      await launcher.handOver(row, build, row.handle!, row.sandboxID, deadline)
      await this.#markRunning(row, row.snapshot?.memory === true)
    } catch (error) {
      if (!(row.snapshot && (await snapshots.find(row.snapshot.name)))) throw error
      await launcher.stop(row.handle!)
      await this.#backToPaused(row, { ...row.snapshot, memory: false, frozen: false }, before)
    }
    return true
  }

  /** What the row may still say of a sandbox of which only the snapshot is there. */
  #whatIsLeft({ sandboxID, snapshot }: Sandbox, { memory }: Snapshot): SandboxSnapshot {
    const { clock, appendLog } = this.#parts
    if (!snapshot!.memory || (memory && !snapshot!.frozen)) return snapshot!
    const why = snapshot!.frozen ? 'the machine went down' : 'a resume was cut off after it had run on'
    appendLog(sandboxID, memoryLostEntry(clock.now(), why))
    return { ...snapshot!, memory: false, frozen: false }
  }

  async #buildOf({ buildID }: Sandbox): Promise<TemplateBuild> {
    const build = await this.#parts.templates.findBuild(buildID)
    if (build) return build
    throw errors.buildIsGone(buildID)
  }
}
