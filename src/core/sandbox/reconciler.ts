/**
 * Makes rows and reality agree: finishes operations that were cut off, ends rows whose sandbox is gone, and puts
 * snapshots without an owner into quarantine. Runs at boot, then every minute, and at once for a sandbox that died.
 * A sandbox whose state is not certain is left alone, logged once, and tried again in the next round.
 */
import { errorText } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { KeyedLock } from '../../lib/keyed-lock.ts'
import { letOthersRun } from '../../lib/let-others-run.ts'
import type { Log } from '../../lib/log.ts'
import {
  canSnapshot,
  type Driver,
  type FoundSandbox,
  type ReadableSandbox,
  type SandboxExit,
} from '../ports/driver.ts'
import type { BuildCacheStore } from '../template/build-cache-store.ts'
import type { TemplateStore } from '../template/template-store.ts'
import type { FrozenSandboxes } from './capacity/frozen-sandboxes.ts'
import type { SandboxLauncher } from './launch/launcher.ts'
import { type EndReason, isChosenEnd, type Sandbox } from './row/sandbox.ts'
import type { CopyFinder, SandboxReader } from './row/sandbox-store.ts'
import type { SandboxInTurn, SandboxTurns } from './row/sandbox-turns.ts'
import { snapshotNamesInUse } from './snapshots/names-in-use.ts'
import type { Quarantine } from './snapshots/quarantine.ts'
import { pausedSandboxOf, pauseSnapshotName } from './snapshots/snapshot-names.ts'
import type { SnapshotStore } from './snapshots/snapshot-store.ts'
import type { SandboxUpkeep } from './upkeep.ts'
import type { WarmPool } from './warm-pool/warm-pool.ts'

/** Delay before a sandbox without a row is stopped, in case its row is only late. */
const unownedGraceMs = 5 * 60_000
/** Number of rows to reconcile before other work of the event loop gets a turn. */
const rowsPerTurn = 100

type ReconcilerParts = {
  upkeep: SandboxUpkeep
  sandboxes: SandboxReader
  driver: Driver
  templates: TemplateStore
  cache: BuildCacheStore
  launcher: SandboxLauncher
  snapshots: SnapshotStore
  quarantine: Quarantine
  warm: WarmPool
  turns: SandboxTurns
  frozen: Pick<FrozenSandboxes, 'keepsFrozen'>
  /** Undefined if there is no object store, because sandboxes then never move to another node. */
  copies: CopyFinder | undefined
  clock: Clock
  log: Log
}

export class Reconciler {
  readonly #parts: ReconcilerParts
  readonly #rounds = new KeyedLock()
  /** When each sandbox that no row owns was first seen. */
  #unownedSince = new Map<string, number>()
  /** Exits that the driver has reported, by sandbox, until the row has ended. */
  readonly #exits = new Map<string, SandboxExit>()
  /** The last logged problem of each subject, as long as it lasts. */
  readonly #problems = new Map<string, string>()
  /** What was attempted since the current round began. */
  #attempted = new Set<string>()

  constructor(parts: ReconcilerParts) {
    this.#parts = parts
  }

  /** What it remembers problems and exits of. */
  get remembered(): string[] {
    return [...this.#problems.keys(), ...this.#exits.keys()]
  }

  /** Runs one round at a time. A call during a round begins another one after it. */
  run(): Promise<void> {
    return this.#rounds.run('round', () => this.#runRound())
  }

  async #runRound(): Promise<void> {
    const { driver, sandboxes, upkeep, templates, quarantine } = this.#parts
    this.#attempted = new Set()
    const exitsBefore = [...this.#exits.keys()]
    // The list is read before the rows, so that a sandbox made in between has its row and is not seen as unowned.
    const found = await driver.list()
    const rows = await sandboxes.listUnended()
    const owned = new Set(rows.map((row) => row.sandboxID))
    const unowned = found.filter(({ sandboxID }) => !owned.has(sandboxID))
    await this.#reconcileUnowned(await this.#withoutCopies(unowned))
    const foundByID = new Map(found.map((one) => [one.sandboxID, one]))
    for (const [index, row] of rows.entries()) {
      if (index % rowsPerTurn === 0) await letOthersRun()
      await this.#attempt(row.sandboxID, () => this.#reconcile(row, foundByID.get(row.sandboxID)))
    }
    await this.#attempt('warm pool', () => this.#dropWarmOfDeleted())
    await this.#attempt('snapshots', () => this.#reconcileSnapshots())
    await this.#attempt('quarantine', () => quarantine.reconcile(() => templates.listSnapshotNames()))
    this.#forgetAllBut(owned, exitsBefore)
    await upkeep.armExpiry()
  }

  /** Forgets what no round will attempt again, and exits of sandboxes that had no row any more when this round read the rows. */
  #forgetAllBut(owned: ReadonlySet<string>, exitsBefore: readonly string[]): void {
    for (const subject of this.#problems.keys())
      if (!this.#attempted.has(subject)) this.#problems.delete(subject)
    for (const sandboxID of exitsBefore)
      if (!owned.has(sandboxID) && !this.#parts.turns.has(sandboxID)) this.#exits.delete(sandboxID)
  }

  /** Ends the row of a sandbox as soon as the driver reports that it died. The returned function stops watching. */
  watchExits(): () => void {
    return this.#parts.driver.onExit((exit) => {
      this.#exits.set(exit.sandboxID, exit)
      void this.#attempt(exit.sandboxID, () => this.#reconcileExit(exit))
    })
  }

  /** Removes snapshots whose owner was deleted, unless something else owns them. */
  async removeSnapshots(names: readonly string[]): Promise<void> {
    const { snapshots, quarantine } = this.#parts
    const inUse = async () => {
      // Since the owner was deleted, a round may have put these snapshots into quarantine.
      await quarantine.release(names)
      return this.#namesInUse()
    }
    await snapshots.sweep(inUse, { deleted: names })
  }

  async #reconcileExit(exit: SandboxExit): Promise<void> {
    const { sandboxID } = exit
    // An operation in progress notices the death by itself; wait for it, and reconcile the row that it leaves.
    await this.#parts.turns.acquire(sandboxID, ({ row, signal }) =>
      this.#reconcileInTurn(row, undefined, signal),
    )
    // If this was an earlier start of the sandbox, the present one may have died meanwhile.
    if (this.#exits.get(sandboxID) === exit) this.#exits.delete(sandboxID)
  }

  /** `seen` and `found` may be outdated: they only show whether to take the turn, which then looks again. */
  async #reconcile(seen: Sandbox, found: FoundSandbox | undefined): Promise<void> {
    const { driver, launcher, turns, upkeep } = this.#parts
    if (turns.has(seen.sandboxID)) return
    if (found?.unreadable) throw found.unreadable
    const isInPlace =
      seen.state === 'running' &&
      seen.handle !== null &&
      launcher.isOpen(seen) &&
      upkeep.isMemoryTracked(seen)
    if (isInPlace && (await driver.recover(seen.handle!)) === 'running') return
    await turns.acquireIfFree(seen.sandboxID, ({ row, signal }) => this.#reconcileInTurn(row, found, signal))
  }

  async #reconcileInTurn(
    read: SandboxInTurn | undefined,
    found: ReadableSandbox | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { driver, upkeep } = this.#parts
    if (!read || read.state === 'ended') return
    const row = await this.#withHandle(read, found)
    switch (row.state) {
      case 'running':
      case 'snapshotting': {
        const there = row.handle ? await driver.recover(row.handle) : 'gone'
        if (there !== 'gone') return this.#keepRunning(row, there)
        break
      }
      case 'pausing':
      case 'paused':
      case 'resuming':
        if (await upkeep.repair(row, signal)) return
    }
    const { reason, detail } = this.#whyEnded(row)
    const mayReturn = row.state !== 'creating' && row.state !== 'killing'
    if (!mayReturn || !(await upkeep.returnToStored(row, detail ?? reason)))
      await upkeep.endInTurn(row, reason, detail)
    this.#exits.delete(row.sandboxID)
  }

  async #keepRunning(row: SandboxInTurn, there: 'running' | 'frozen'): Promise<void> {
    const { launcher, upkeep, frozen } = this.#parts
    // A fork or snapshot that was cut off has frozen the sandbox.
    const isOfCopy = row.state === 'snapshotting'
    if (there === 'frozen' && (isOfCopy || !frozen.keepsFrozen(row))) await launcher.thaw(row.handle!)
    const running = row.state === 'snapshotting' ? await upkeep.repairCopied(row) : row
    if (running && !launcher.isOpen(running)) await launcher.open(running)
    if (running) upkeep.trackMemoryLoad(running)
  }

  #whyEnded({ sandboxID, state, endReason }: Sandbox): { reason: EndReason; detail?: string } {
    if (state === 'creating') return { reason: 'create_failed' }
    if (state === 'killing') return { reason: endReason ?? 'killed' }
    const exit = this.#exits.get(sandboxID)
    if (!exit) return { reason: 'lost' }
    return { reason: exit.reason === 'killed' ? 'killed_from_outside' : exit.reason, detail: exit.detail }
  }

  /** Writes the handle to the row if a start was cut off before it could do so: only the driver knows it then. */
  async #withHandle(row: SandboxInTurn, listed: ReadableSandbox | undefined): Promise<SandboxInTurn> {
    const { driver, turns } = this.#parts
    // The listed sandbox may be an earlier run, and a later run may have started since the list was read.
    const mayBeNew = row.state === 'creating' || row.state === 'resuming'
    const found = mayBeNew ? await this.#findReadable(row.sandboxID) : listed
    if (!found) return row
    if (row.state === 'paused' && !row.snapshot?.frozen) {
      await driver.stop(found.handle)
      return row
    }
    if (row.handle && (row.state !== 'resuming' || found.runID !== row.runID)) return row
    if (row.state === 'resuming' && found.runID !== row.runID) {
      // It is left from a run that the row has forgotten, as rows of a forgotten node do; this run has not started.
      await driver.stop(found.handle)
      return row
    }
    await turns.saveHandle(row, found.handle)
    return { ...row, handle: found.handle }
  }

  async #findReadable(sandboxID: string): Promise<ReadableSandbox | undefined> {
    const found = (await this.#parts.driver.list()).find((one) => one.sandboxID === sandboxID)
    if (found?.unreadable) throw found.unreadable
    return found
  }

  /**
   * Stops sandboxes whose row belongs to another node: a sandbox must never run twice. Returns the other sandboxes of
   * `found`.
   */
  async #withoutCopies(found: readonly FoundSandbox[]): Promise<readonly FoundSandbox[]> {
    const { copies } = this.#parts
    if (!copies || found.length === 0) return found
    const elsewhere = new Set(await copies.listElsewhere(found.map(({ sandboxID }) => sandboxID)))
    for (const one of found) {
      if (!elsewhere.has(one.sandboxID)) continue
      await this.#attempt(one.sandboxID, async () => {
        if (one.unreadable) throw one.unreadable
        await this.#stopCopy(copies, one)
      })
    }
    return found.filter(({ sandboxID }) => !elsewhere.has(sandboxID))
  }

  /** Stops the copy, unless this node has taken the sandbox over since it was listed. */
  async #stopCopy(copies: CopyFinder, { sandboxID, handle }: ReadableSandbox): Promise<void> {
    const { driver, turns, log } = this.#parts
    await turns.acquireIfFree(sandboxID, async ({ row }) => {
      if (row && row.state !== 'ended') return
      if ((await copies.listElsewhere([sandboxID])).length === 0) return
      await driver.stop(handle)
      log.warn({ sandboxID }, 'The copy of a sandbox that another node owns was stopped.')
    })
  }

  async #reconcileUnowned(found: readonly FoundSandbox[]): Promise<void> {
    const { turns, warm, clock } = this.#parts
    const before = this.#unownedSince
    this.#unownedSince = new Map()
    for (const one of found) {
      const { sandboxID } = one
      if (warm.owns(sandboxID)) continue
      const since = before.get(sandboxID) ?? clock.now()
      await this.#attempt(sandboxID, async () => {
        await turns.acquireIfFree(sandboxID, async ({ row }) => {
          // Since the rows were listed, a create may have taken it from the warm pool, or is about to.
          if ((row && row.state !== 'ended') || warm.owns(sandboxID)) return
          this.#unownedSince.set(sandboxID, since)
          await this.#removeUnowned(one, { since, isNew: !before.has(sandboxID), ended: row })
        })
      })
    }
  }

  /**
   * Call this in the sandbox's turn, after no row was found that owns it. A sandbox that runs although its row
   * has ended is stopped at once, because its team was told that it is gone: the node was forgotten, for example.
   */
  async #removeUnowned(
    one: FoundSandbox,
    { since, isNew, ended }: { since: number; isNew: boolean; ended: SandboxInTurn | undefined },
  ): Promise<void> {
    const { driver, clock, log } = this.#parts
    if (isNew) log.warn({ sandboxID: one.sandboxID }, 'A sandbox is there that no row owns.')
    if (one.unreadable) throw one.unreadable
    if (one.disposable) return driver.stop(one.handle)
    const isOverdue = clock.now() - since >= unownedGraceMs
    if (!isOverdue && !ended) return
    const there = await driver.recover(one.handle)
    // A frozen sandbox does nothing, and until the end of the grace it can be recovered with its memory.
    if (isOverdue || there !== 'frozen') await this.#endUnowned(one, there, ended)
  }

  /** Takes a snapshot of a live sandbox before it is stopped, because its owner may want it back. */
  async #endUnowned(
    { sandboxID, runID, handle }: ReadableSandbox,
    there: 'running' | 'frozen' | 'gone',
    ended: SandboxInTurn | undefined,
  ): Promise<void> {
    const { driver, launcher, snapshots, quarantine, log } = this.#parts
    const name = pauseSnapshotName({ sandboxID, runID })
    const isWanted = !ended?.endReason || !isChosenEnd(ended.endReason)
    if (there !== 'gone' && isWanted && canSnapshot(driver)) {
      if (there === 'frozen') await launcher.thaw(handle)
      await snapshots.protecting(name, async () => {
        // A snapshot of this name is the remainder of an earlier attempt, and outdated.
        await snapshots.remove(name)
        const memory = snapshots.canTakeMemory
        await snapshots.takeSnapshot(handle, name, { memory, afterwards: 'end', lasting: true })
        await quarantine.add(
          name,
          ended
            ? `Its sandbox ran on after it had ended (${ended.endReason}).`
            : 'Its sandbox was running although no row owned it.',
        )
      })
    }
    await driver.stop(handle)
    log.warn({ sandboxID }, 'A sandbox that no row owned was stopped.')
  }

  async #reconcileSnapshots(): Promise<void> {
    const { snapshots, quarantine, log } = this.#parts
    const migrated = await this.#migratedAway()
    const removable = await quarantine.removable()
    const inUse = async () => (await this.#namesInUse()).filter((name) => !migrated.includes(name))
    const worthless: string[] = []
    const judge = async (name: string) => {
      const found = await snapshots.find(name)
      // An incomplete snapshot, or one imported for a template, was never the only copy of anything.
      const isCopy = found?.arriving || (found?.imported && pausedSandboxOf(name) === null)
      if (found && !isCopy) await quarantine.add(name, 'No sandbox, template or build owns it.')
      else worthless.push(name)
    }
    const { names } = await snapshots.sweep(inUse, {
      deleted: [...migrated, ...removable],
      onUnowned: async (unowned) => {
        for (const name of unowned) await this.#attempt(name, () => judge(name))
      },
    })
    await this.#forgetRemoved(removable)
    if (names.length > 0) log.warn({ removed: names }, 'Snapshots that nothing owned were removed.')
    for (const name of worthless) await this.#attempt(name, () => this.removeSnapshots([name]))
  }

  /** A snapshot that is still in use stays on the disk, and the next round looks at it again. */
  async #forgetRemoved(removable: readonly string[]): Promise<void> {
    if (removable.length === 0) return
    const { snapshots, quarantine } = this.#parts
    const there = new Set(await snapshots.names())
    await quarantine.forgetRemoved(removable.filter((name) => !there.has(name)))
  }

  /** Another node that deletes a template cannot empty the warm pool of this node. */
  async #dropWarmOfDeleted(): Promise<void> {
    const { warm, templates } = this.#parts
    for (const templateID of warm.pooledTemplates())
      if (!(await templates.findByID(templateID))) await warm.drop(templateID)
  }

  /** Snapshots of sandboxes that another node took over: that node has the row, and a copy from the object store. */
  async #migratedAway(): Promise<string[]> {
    const { copies, snapshots, quarantine } = this.#parts
    if (!copies) return []
    // The quarantine of this node may hold the only copy of an earlier snapshot of the same sandbox.
    const quarantined = await quarantine.names()
    const names = (await snapshots.names()).filter(
      (name) => pausedSandboxOf(name) !== null && !quarantined.includes(name),
    )
    if (names.length === 0) return []
    const elsewhere = new Set(
      await copies.listElsewhere([...new Set(names.map((name) => pausedSandboxOf(name)!))]),
    )
    return names.filter((name) => elsewhere.has(pausedSandboxOf(name)!))
  }

  async #namesInUse(): Promise<string[]> {
    return [...(await snapshotNamesInUse(this.#parts)), ...(await this.#parts.cache.listSnapshotNames())]
  }

  /** Logs a failure, so that the others are still reconciled; the next round tries this one again. */
  async #attempt(subject: string, work: () => Promise<void>): Promise<void> {
    this.#attempted.add(subject)
    try {
      await work()
      this.#problems.delete(subject)
    } catch (error) {
      if (this.#problems.get(subject) === errorText(error)) return
      this.#problems.set(subject, errorText(error))
      this.#parts.log.error(
        { subject, err: error },
        'This could not be reconciled and is left alone; every round tries again.',
      )
    }
  }
}
