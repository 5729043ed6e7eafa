/**
 * Holds the rows against what is really there: finishes what a crash cut short, ends what is lost, stops what
 * nobody owns. At boot, then now and again.
 */
import type { Log } from '../../lib/log.ts'
import type { Driver, FoundSandbox } from '../driver.ts'
import type { SandboxStore } from '../stores.ts'
import type { SandboxLauncher } from './launcher.ts'
import type { RouteTable } from './routes.ts'
import type { Sandbox } from './sandbox.ts'
import type { SandboxService } from './service.ts'
import type { WarmPool } from './warm-pool.ts'

export type ReconcilerParts = {
  service: SandboxService
  sandboxes: SandboxStore
  driver: Driver
  launcher: SandboxLauncher
  routes: RouteTable
  warm: WarmPool
  log: Log
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
    for (const { sandboxID, handle } of found) {
      if (owned.has(sandboxID) || warm.holds(sandboxID) || service.isBusyWith(sandboxID)) continue
      log.warn({ sandboxID }, 'stopping a sandbox that no row owns')
      await this.#attempt(sandboxID, () => driver.stop(handle))
    }
    const foundByID = new Map(found.map((one) => [one.sandboxID, one]))
    for (const row of rows) {
      await this.#attempt(row.sandboxID, () => this.#settle(row, foundByID.get(row.sandboxID)))
    }
    await service.armExpiry()
  }

  async #settle(row: Sandbox, found: FoundSandbox | undefined): Promise<void> {
    const { driver, launcher, routes, sandboxes, service } = this.#parts
    if (service.isBusyWith(row.sandboxID)) return
    if (row.state === 'running' && row.handle && (await driver.recover(row.handle)) === 'running') {
      if (!routes.get(row.sandboxID)) launcher.openRoute(row)
      return
    }
    // A create cut short before its handle was saved: what it started is known to the driver alone.
    if (!row.handle && found) await sandboxes.saveHandle(row.sandboxID, row.runID, found.handle)
    const reason = row.state === 'creating' ? 'create_failed' : row.state === 'killing' ? 'killed' : 'lost'
    await service.endAsSeen(row, reason)
  }

  /** A failure with one sandbox must not keep the others from being settled; the next round tries again. */
  async #attempt(sandboxID: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#parts.log.error(
        { sandboxID, err: error },
        'could not settle a sandbox; the next round tries again',
      )
    }
  }
}
