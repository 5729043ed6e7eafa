/**
 * Snapshots without an owner. A snapshot is never removed just because no row names it: it stays here for
 * some days, and the operator can recover its sandbox from it.
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

type QuarantineParts = {
  entries: QuarantineStore
  sandboxes: Pick<SandboxReader, 'find'>
  sandboxTurns: SandboxTurns
  snapshots: SnapshotStore
  driver: Driver
  clock: Clock
  /** This Warren, which sees only the snapshots on its own disk. */
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

  /** Entries of all nodes, oldest first, each with the time of its removal. */
  async list(): Promise<(QuarantinedSnapshot & { deletedAt: number })[]> {
    const { entries, keepMs } = this.#parts
    return (await entries.list()).map((entry) => ({ ...entry, deletedAt: entry.since + keepMs }))
  }

  async names(): Promise<string[]> {
    const { entries, nodeID } = this.#parts
    return (await entries.list(nodeID)).map(({ snapshotName }) => snapshotName)
  }

  /**
   * Snapshots on this node that are marked for removal, or whose template was deleted through another node.
   */
  removable(): Promise<string[]> {
    const { entries, nodeID } = this.#parts
    return entries.listRemovable(nodeID)
  }

  /** Removes the entries of snapshots that were marked for removal and are removed now. */
  async forgetRemoved(names: readonly string[]): Promise<void> {
    for (const name of names) await this.#parts.entries.remove(name)
  }

  /** Ends the quarantine of snapshots whose owner was deleted, so that nobody wants them back. */
  async release(names: readonly string[]): Promise<void> {
    const here = new Set(await this.names())
    for (const name of names) {
      if (!here.has(name)) continue
      await this.#turns.acquire(name, async ({ row }) => {
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

  /** Turns the snapshot's sandbox back into a paused sandbox of its team. */
  recover(snapshotName: string): Promise<Sandbox> {
    const { snapshots, sandboxTurns } = this.#parts
    return this.#turns.acquire(snapshotName, async ({ row }) => {
      const { sandboxID } = this.#ours(snapshotName, row)
      if (sandboxID === null) throw noSandbox(snapshotName, snapshots.folder(snapshotName))
      return sandboxTurns.acquire(sandboxID, ({ row: ended }) =>
        snapshots.protecting(snapshotName, () => this.#reopen(snapshotName, ended)),
      )
    })
  }

  async #reopen(snapshotName: string, ended: SandboxInTurn | undefined): Promise<Sandbox> {
    const { sandboxTurns, snapshots, clock, appendLog, log } = this.#parts
    const found = await snapshots.find(snapshotName)
    if (!found) throw notWhole(snapshotName, snapshots.folder(snapshotName))
    // If the row has not ended, whatever the driver has of the sandbox belongs to that row.
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

  /** Removes the snapshot now. */
  remove(snapshotName: string): Promise<void> {
    return this.#turns.acquire(snapshotName, async ({ row }) => {
      this.#ours(snapshotName, row)
      await this.#remove(row!)
    })
  }

  /**
   * Marks the entry first: after that no `reopen` takes effect, not even one of an earlier call that the
   * database carries out late. If a crash cuts the removal off, the reconciler finishes it.
   */
  async #remove({ snapshotName, sandboxID }: InTurn<QuarantinedSnapshot>): Promise<void> {
    const { entries, sandboxes, snapshots, clock } = this.#parts
    await snapshots.protecting(snapshotName, async () => {
      await retryPassing(clock, () => entries.markForRemoval(snapshotName))
      const owner = sandboxID === null ? undefined : await sandboxes.find(sandboxID)
      if (owner && owner.state !== 'ended' && owner.snapshot?.name === snapshotName)
        throw isRecovered(snapshotName, owner.sandboxID)
      await snapshots.remove(snapshotName)
      await retryPassing(clock, () => entries.remove(snapshotName))
    })
  }

  /**
   * Removes snapshots whose time in quarantine is over, and entries of snapshots that do not exist or that
   * builds own. Such entries come from statements that reach the database late, after their process died: the
   * insert of an entry after its snapshot was removed, or of a build after its snapshot was put into
   * quarantine.
   */
  async reconcile(readOwned: () => Promise<readonly string[]>): Promise<void> {
    const { entries, snapshots, nodeID, log } = this.#parts
    // Read before the disk: a snapshot that is put into quarantine meanwhile was on the disk before.
    const listed = await entries.list(nodeID)
    if (listed.length === 0) return
    const there = new Set(await snapshots.names())
    const owned = new Set(await readOwned())
    for (const { snapshotName } of listed) {
      const why = owned.has(snapshotName) ? 'A template owns it.' : 'It is not there.'
      const isUnowned = there.has(snapshotName) && !owned.has(snapshotName)
      await this.#turns
        .acquireIfFree(snapshotName, ({ row }) => this.#reconcileOne(row, isUnowned ? undefined : why))
        ?.catch((error) => {
          log.error({ snapshotName, err: error }, 'A snapshot in quarantine could not be reconciled.')
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
      log.warn(
        { snapshotName },
        'A snapshot was removed, because nobody recovered it from quarantine in time.',
      )
    }
  }

  /**
   * Returns the sandbox itself if it is still frozen as its pause left it: then it comes back with its
   * memory. If its processes are gone, removes its remains, because no other sandbox could start in their
   * place.
   */
  async #findFrozen(sandboxID: string): Promise<DriverHandle | null> {
    const { driver } = this.#parts
    const found = (await driver.list()).find((one) => one.sandboxID === sandboxID)
    if (!found) return null
    if (found.unreadable) throw found.unreadable
    const there = await driver.recover(found.handle)
    if (there === 'frozen') return found.handle
    if (there === 'running') throw stillRuns(sandboxID)
    await driver.stop(found.handle)
    return null
  }

  #ours(snapshotName: string, entry: QuarantinedSnapshot | undefined): QuarantinedSnapshot {
    if (entry?.nodeID === this.#parts.nodeID) return entry
    throw new AppError(
      'not_found',
      `There is no snapshot '${snapshotName}' in the quarantine of this server. Run \`warren recover\` to list them.`,
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
    `The sandbox "${sandboxID}" still runs although no row owns it, and is newer than the snapshot. Warren takes a snapshot ` +
      'of it within some minutes and stops it. Recover that one then; `warren recover` lists it.',
    { retry: { should: false } },
  )

const notWhole = (snapshotName: string, folder: string) =>
  new AppError(
    'conflict',
    `The snapshot '${snapshotName}' is incomplete, so no sandbox can start from it. Its files are in ${folder}.`,
    { retry: { should: false } },
  )
