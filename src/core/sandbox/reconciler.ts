/**
 * Holds the rows against what is really there: finishes what a crash cut short, ends what is lost, stops what
 * nobody owns. At boot, then now and again.
 */
import type { Log } from '../../lib/log.ts'
import type { Driver, FoundSandbox, ListedSandbox } from '../driver.ts'
import type { BuildCacheStore, SandboxStore, TemplateStore } from '../stores.ts'
import type { SandboxLauncher } from './launcher.ts'
import type { RouteTable } from './routes.ts'
import type { Sandbox } from './sandbox.ts'
import type { SandboxService } from './service.ts'
import type { SnapshotStore } from './snapshot-store.ts'
import type { WarmPool } from './warm-pool.ts'

export type ReconcilerParts = {
  service: SandboxService
  sandboxes: SandboxStore
  driver: Driver
  templates: TemplateStore
  cache: BuildCacheStore
  launcher: SandboxLauncher
  snapshots: SnapshotStore
  routes: RouteTable
  warm: WarmPool
  log: Log
}

/** What sandboxes and templates own. The build cache owns others, which can be made again. */
export async function snapshotNamesInUse(stores: {
  sandboxes: SandboxStore
  templates: TemplateStore
}): Promise<string[]> {
  const rows = await stores.sandboxes.listUnended()
  const kept = rows.flatMap((row) => (row.snapshot ? [row.snapshot.name] : []))
  return [...kept, ...(await stores.templates.listSnapshotNames())]
}

export class Reconciler {
  readonly #parts: ReconcilerParts

  constructor(parts: ReconcilerParts) {
    this.#parts = parts
  }

  async run(): Promise<void> {
    const { driver, sandboxes, service, warm, log } = this.#parts
    // Read before the rows: what was made in between then has its row, and is not taken for unowned.
    const found = await driver.list()
    const rows = await sandboxes.listUnended()
    const owned = new Set(rows.map((row) => row.sandboxID))
    for (const one of found) {
      const { sandboxID } = one
      if (one.unreadable) {
        log.error({ sandboxID, err: one.unreadable }, 'a sandbox could not be read and is left alone')
        continue
      }
      const { handle } = one
      if (owned.has(sandboxID) || warm.holds(sandboxID) || service.isBusyWith(sandboxID)) continue
      log.warn({ sandboxID }, 'stopping a sandbox that no row owns')
      await this.#attempt(sandboxID, () => driver.stop(handle))
    }
    const foundByID = new Map(found.map((one) => [one.sandboxID, one]))
    for (const row of rows) {
      await this.#attempt(row.sandboxID, () => this.#reconcile(row, foundByID.get(row.sandboxID)))
    }
    await this.#attempt('snapshots', () => this.sweepSnapshots())
    await service.armExpiry()
  }

  async #reconcile(seen: Sandbox, found: FoundSandbox | undefined): Promise<void> {
    const { driver, launcher, routes, service } = this.#parts
    if (service.isBusyWith(seen.sandboxID) || found?.unreadable) return
    const row = await this.#withHandle(seen, found)
    const there = row.handle ? await driver.recover(row.handle) : 'gone'
    // What stands still is in the middle of something: if it is ours, it has begun since the row was read.
    if (service.isBusyWith(row.sandboxID)) return
    switch (row.state) {
      case 'running':
      case 'snapshotting':
        if (there === 'gone') break
        if (there === 'paused') await launcher.thaw(row.handle!)
        if (row.state === 'snapshotting') await service.repair(row)
        if (!routes.get(row.sandboxID)) {
          await launcher.applyEgress(row)
          launcher.openRoute(row)
        }
        return
      case 'pausing':
      case 'paused':
      case 'resuming':
        if (await service.repair(row)) return
    }
    const reason = row.state === 'creating' ? 'create_failed' : row.state === 'killing' ? 'killed' : 'lost'
    await service.endAsSeen(row, reason)
  }

  /** A start that was cut short before its handle was saved: what it started is known to the driver alone. */
  async #withHandle(row: Sandbox, found: ListedSandbox | undefined): Promise<Sandbox> {
    const { driver, sandboxes } = this.#parts
    if (!found) return row
    if (row.state === 'paused' && !row.snapshot?.frozen) {
      await driver.stop(found.handle)
      return row
    }
    if (row.handle && (row.state !== 'resuming' || found.runID !== row.runID)) return row
    await sandboxes.saveHandle(row.sandboxID, row.runID, found.handle)
    return { ...row, handle: found.handle }
  }

  /** Also to be called when something was deleted, so that its room is free at once. */
  async sweepSnapshots(): Promise<void> {
    const { cache, snapshots, log } = this.#parts
    const { names } = await snapshots.sweep(async () => [
      ...(await snapshotNamesInUse(this.#parts)),
      ...(await cache.listSnapshotNames()),
    ])
    if (names.length > 0) log.warn({ removed: names }, 'snapshots that nothing owned were removed')
  }

  /** A failure with one sandbox must not keep the others from being reconciled; the next round tries again. */
  async #attempt(sandboxID: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#parts.log.error(
        { sandboxID, err: error },
        'could not reconcile a sandbox; the next round tries again',
      )
    }
  }
}
