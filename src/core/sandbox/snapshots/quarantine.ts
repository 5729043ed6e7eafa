/**
 * Snapshots that nothing owns. Nobody deletes them on the ground that no row names them: they stay here for some days,
 * and the operator can give a sandbox back to its team from one.
 */
import { AppError } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import { newUUID } from '../../../lib/ids.ts'
import type { Log } from '../../../lib/log.ts'
import { retryPassing } from '../../../lib/retry-passing.ts'
import { type InTurn, Turns } from '../../../lib/turns.ts'
import type { Driver, DriverHandle } from '../../ports/driver.ts'
import type { LogEntry } from '../../ports/logs.ts'
import { recoveredEntry } from '../row/life-entries.ts'
import type { Sandbox } from '../row/sandbox.ts'
import type { SandboxReader } from '../row/sandbox-store.ts'
import type { SandboxInTurn, SandboxTurns } from '../row/sandbox-turns.ts'
import type { QuarantinedSnapshot, QuarantineStore } from './quarantine-store.ts'
import { pausedSandboxOf } from './snapshot-names.ts'
import type { SnapshotStore } from './snapshot-store.ts'

export type QuarantineParts = {
  entries: QuarantineStore
  sandboxes: Pick<SandboxReader, 'find'>
  sandboxTurns: SandboxTurns
  snapshots: SnapshotStore
  driver: Driver
  clock: Clock
  /** This Warren: it sees only what lies on its own disk. */
  nodeID: string
  keepMs: number
  appendLog: (sandboxID: string, entry: LogEntry) => void
  log: Log
}

export class Quarantine {
  readonly #parts: QuarantineParts
  /** By the name of the snapshot. */
  readonly #turns: Turns<QuarantinedSnapshot>

  constructor(parts: QuarantineParts) {
    this.#parts = parts
    this.#turns = new Turns((snapshotName) => parts.entries.find(snapshotName))
  }

  /** Those of all nodes, the oldest first, each with the time at which it is deleted. */
  async list(): Promise<(QuarantinedSnapshot & { deletedAt: number })[]> {
    const { entries, keepMs } = this.#parts
    return (await entries.list()).map((entry) => ({ ...entry, deletedAt: entry.since + keepMs }))
  }

  async names(): Promise<string[]> {
    const { entries, nodeID } = this.#parts
    return (await entries.list(nodeID)).map(({ snapshotName }) => snapshotName)
  }

  /** Snapshots here that are being removed, or whose template was deleted through another node. */
  discarded(): Promise<string[]> {
    const { entries, nodeID } = this.#parts
    return entries.listDiscarded(nodeID)
  }

  /** These discarded snapshots are removed. */
  async forgetDiscarded(names: readonly string[]): Promise<void> {
    for (const name of names) await this.#parts.entries.remove(name)
  }

  /** Nobody is to have these back: their owner was deleted. */
  async release(names: readonly string[]): Promise<void> {
    const here = new Set(await this.names())
    for (const name of names) {
      if (!here.has(name)) continue
      await this.#turns.take(name, async ({ row }) => {
        if (row) await this.#parts.entries.remove(name)
      })
    }
  }

  async add(snapshotName: string, reason: string): Promise<void> {
    const { entries, clock, nodeID, log } = this.#parts
    const sandboxID = pausedSandboxOf(snapshotName)
    await entries.insert({ snapshotName, nodeID, sandboxID, reason, since: clock.now() })
    log.warn({ snapshotName, sandboxID, reason }, 'A snapshot was put into quarantine; see `warren recover`.')
  }

  /** Gives the snapshot's sandbox back to its team, as paused. */
  recover(snapshotName: string): Promise<Sandbox> {
    const { snapshots, sandboxTurns } = this.#parts
    return this.#turns.take(snapshotName, async ({ row }) => {
      const { sandboxID } = this.#ours(snapshotName, row)
      if (sandboxID === null) throw noSandbox(snapshotName, snapshots.folder(snapshotName))
      return sandboxTurns.take(sandboxID, ({ row: ended }) =>
        snapshots.holding(snapshotName, () => this.#reopen(snapshotName, ended)),
      )
    })
  }

  async #reopen(snapshotName: string, ended: SandboxInTurn | undefined): Promise<Sandbox> {
    const { sandboxTurns, snapshots, clock, appendLog, log } = this.#parts
    const found = await snapshots.find(snapshotName)
    if (!found) throw notWhole(snapshotName, snapshots.folder(snapshotName))
    // Whatever the driver has of a sandbox whose row has not ended is not ours to look at.
    if (ended?.state !== 'ended') throw noSandbox(snapshotName, snapshots.folder(snapshotName))
    const { sandboxID } = ended
    const handle = await this.#findFrozen(sandboxID)
    const frozen = handle !== null
    const memory = frozen || found.memory
    const snapshot = { name: snapshotName, memory, frozen, agentUnresponsive: false }
    const changes = { snapshot, handle, runID: newUUID(), endAt: clock.now() }
    const row = await sandboxTurns.reopen(ended, changes)
    if (!row) throw noSandbox(snapshotName, snapshots.folder(snapshotName))
    appendLog(sandboxID, recoveredEntry(changes.endAt, snapshot.memory))
    log.info({ sandboxID, snapshotName }, 'sandbox recovered from quarantine')
    return row
  }

  /** Deletes the snapshot now. */
  remove(snapshotName: string): Promise<void> {
    return this.#turns.take(snapshotName, async ({ row }) => {
      this.#ours(snapshotName, row)
      await this.#remove(row!)
    })
  }

  /**
   * The entry first: once it is discarded, no `reopen` takes effect any more, not even one of an earlier call that the
   * database carries out late. What a crash leaves of a discarded snapshot is removed by the reconciler.
   */
  async #remove({ snapshotName, sandboxID }: InTurn<QuarantinedSnapshot>): Promise<void> {
    const { entries, sandboxes, snapshots, clock } = this.#parts
    await snapshots.holding(snapshotName, async () => {
      await retryPassing(clock, () => entries.discard(snapshotName))
      const owner = sandboxID === null ? undefined : await sandboxes.find(sandboxID)
      if (owner && owner.state !== 'ended' && owner.snapshot?.name === snapshotName)
        throw isRecovered(snapshotName, owner.sandboxID)
      await snapshots.remove(snapshotName)
      await retryPassing(clock, () => entries.remove(snapshotName))
    })
  }

  /**
   * Deletes what was here for longer than it is kept, and drops the entries of snapshots that are not there or that builds
   * own. Such entries come from statements that reach the database late, after their process died: the entry once its
   * snapshot was removed, or the build once its snapshot, which had no owner until then, was put here.
   */
  async reconcile(readOwned: () => Promise<readonly string[]>): Promise<void> {
    const { entries, snapshots, nodeID, log } = this.#parts
    // Read before the disk: a snapshot that is put here meanwhile was on it before.
    const listed = await entries.list(nodeID)
    if (listed.length === 0) return
    const there = new Set(await snapshots.names())
    const owned = new Set(await readOwned())
    for (const { snapshotName } of listed) {
      const why = owned.has(snapshotName) ? 'A template owns it.' : 'It is not there.'
      const isKept = there.has(snapshotName) && !owned.has(snapshotName)
      await this.#turns
        .takeIfFree(snapshotName, ({ row }) => this.#reconcileOne(row, isKept ? undefined : why))
        ?.catch((error) => {
          log.error({ snapshotName, err: error }, 'A snapshot in quarantine could not be looked after.')
        })
    }
  }

  async #reconcileOne(
    entry: InTurn<QuarantinedSnapshot> | undefined,
    why: string | undefined,
  ): Promise<void> {
    const { entries, clock, keepMs, log } = this.#parts
    if (!entry) return
    const { snapshotName, since } = entry
    if (why !== undefined) {
      await entries.remove(snapshotName)
      log.warn({ snapshotName, why }, 'A snapshot was taken out of quarantine.')
    } else if (since + keepMs <= clock.now()) {
      await this.#remove(entry)
      log.warn({ snapshotName }, 'A snapshot that nobody wanted back was deleted from quarantine.')
    }
  }

  /**
   * The sandbox itself, if it is still there as its pause left it: then it comes back with its memory. Of one whose processes
   * are gone, the rest is removed, since no other could be started in its place.
   */
  async #findFrozen(sandboxID: string): Promise<DriverHandle | null> {
    const { driver } = this.#parts
    const found = (await driver.list()).find((one) => one.sandboxID === sandboxID)
    if (!found) return null
    if (found.unreadable) throw found.unreadable
    const there = await driver.recover(found.handle)
    if (there === 'paused') return found.handle
    if (there === 'running') throw stillRuns(sandboxID)
    await driver.stop(found.handle)
    return null
  }

  #ours(snapshotName: string, entry: QuarantinedSnapshot | undefined): QuarantinedSnapshot {
    if (entry?.nodeID === this.#parts.nodeID) return entry
    throw new AppError(
      'not_found',
      `There is no snapshot '${snapshotName}' in the quarantine of this server. Run \`warren recover\` to see what is.`,
    )
  }
}

const noSandbox = (snapshotName: string, folder: string) =>
  new AppError(
    'conflict',
    `The snapshot '${snapshotName}' cannot become a sandbox: the database has no ended sandbox that it belongs to. ` +
      `Its files are in ${folder}.`,
    { retry: { should: false } },
  )

const isRecovered = (snapshotName: string, sandboxID: string) =>
  new AppError(
    'conflict',
    `The snapshot '${snapshotName}' belongs to the sandbox "${sandboxID}" again, which was recovered from it.`,
    { retry: { should: false } },
  )

const stillRuns = (sandboxID: string) =>
  new AppError(
    'conflict',
    `The sandbox "${sandboxID}" still runs although no row owns it, and is newer than the snapshot. Warren keeps a snapshot ` +
      'of it within some minutes and stops it: recover that one then, `warren recover` lists it.',
    { retry: { should: false } },
  )

const notWhole = (snapshotName: string, folder: string) =>
  new AppError(
    'conflict',
    `The snapshot '${snapshotName}' is not whole, so no sandbox can start from it. Its files are in ${folder}.`,
    { retry: { should: false } },
  )
