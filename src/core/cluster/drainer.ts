/**
 * Empties this node while it is draining. A running sandbox is paused with its memory, stored in the object
 * store, and resumed by another node; a paused one is handed over as it is. Only the row moves, by compare
 * and set, so a sandbox never runs twice. The first step of the pause writes into the row that the sandbox is
 * to run again. Whatever fails, and whichever process dies, the node that has the row continues: it offers
 * the sandbox to another node while it is draining itself, or resumes it. A failure is logged once and tried
 * again.
 */
import { AppError, errorText, isAppError } from '../../lib/app-error.ts'
import { type Clock, waitAtMost } from '../../lib/clock.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import type { SandboxMigrator } from '../object-storage/migrator.ts'
import type { PausedSandbox, RemoteBytesStore } from '../object-storage/remote-bytes-store.ts'
import type { Uploader } from '../object-storage/uploader.ts'
import type { MemoryNeeds } from '../ports/driver.ts'
import type { Sandbox } from '../sandbox/row/sandbox.ts'
import type { SandboxStore } from '../sandbox/row/sandbox-store.ts'
import type { SandboxUpkeep } from '../sandbox/upkeep.ts'
import { type DepartureParts, resumeDeparted } from './departure.ts'
import type { AskWhyUnfit, HandOver } from './hand-over.ts'
import type { Membership } from './membership.ts'
import { type ClusterNode, isUnreachable } from './node.ts'
import { rankNodes } from './rank-nodes.ts'

/** A move loads the disk and the network, and its sandbox does not run meanwhile. */
const migrationsAtOnce = 2
/** Delay before a sandbox is tried again after a failure, because each try interrupts it. */
const retryAfterMs = 60_000
/** A sandbox that ends sooner than this is not moved, unless its client extends its time meanwhile. */
const minLeftMs = 60_000
/** Maximum time that a request for a sandbox waits for the end of its move. */
const maxWaitMs = 30_000
/** Maximum number of attempts to pause a sandbox whose timeout changes meanwhile. */
const maxPauses = 3
/** How often a node that is not draining looks for sandboxes that a drain has paused. */
const lookEveryMs = 30_000

export type DrainerParts = DepartureParts & {
  membership: Pick<Membership, 'nodeID' | 'isDraining' | 'nodes'>
  sandboxes: Pick<SandboxStore, 'find' | 'listUnended'>
  rows: Pick<RemoteBytesStore, 'findPaused' | 'findStoredBuild' | 'listDepartures'>
  uploader: Pick<Uploader, 'storeSandbox'>
  migrator: Pick<SandboxMigrator, 'claim'>
  upkeep: Pick<SandboxUpkeep, 'pauseAsSeen' | 'resumeAsSeen'>
  handOver: HandOver
  askWhyUnfit: AskWhyUnfit
  /** What the memory of a running sandbox needs of a machine. */
  readNeeds: (row: Sandbox) => Promise<MemoryNeeds | null>
  /** True if snapshots of running sandboxes hold memory that other machines can use. */
  canMigrateMemory: boolean
  drawBelow: (count: number) => number
  clock: Clock
  log: Log
}

type NodeDemand = {
  needsCapacity: boolean
  /** Null: there is no memory. */
  needs: MemoryNeeds | null
}

type Step = { sandboxID: string; run: () => Promise<void> }

export class Drainer {
  readonly #parts: DrainerParts
  readonly #closing = new AbortController()
  readonly #migrations = new JoinedWork<void>()
  /** For each sandbox the last problem that was logged, and when to try again. */
  readonly #problems = new Map<string, { text: string; retryAt: number }>()
  /** For each sandbox the processes of nodes that were offered it and cannot use its memory. */
  readonly #unfit = new Map<string, Set<string>>()
  /** For each sandbox that was about to end, the end of its time when that was first seen. */
  readonly #firstEnds = new Map<string, number>()
  #nextLookAt = Number.NEGATIVE_INFINITY

  constructor(parts: DrainerParts) {
    this.#parts = parts
  }

  /**
   * Runs one round: first the sandboxes that earlier moves left paused, here or on a node that is away, then
   * those that must leave this node.
   */
  async run(): Promise<void> {
    const departures = await this.#departures()
    await this.#runSteps(departures)
    const migrations = this.#goesOn() ? await this.#migrationSteps() : []
    await this.#runSteps(migrations, () => this.#goesOn())
    const listed = new Set([...departures, ...migrations].map(({ sandboxID }) => sandboxID))
    for (const known of [this.#problems, this.#unfit, this.#firstEnds])
      for (const sandboxID of known.keys()) if (!listed.has(sandboxID)) known.delete(sandboxID)
  }

  /** Resolves when the sandbox is not being moved, or after `maxWaitMs`. */
  async settled(sandboxID: string): Promise<void> {
    const migration = this.#migrations.get(sandboxID)?.catch(() => {})
    if (migration) await waitAtMost(this.#parts.clock, maxWaitMs, migration)
  }

  /** Cancels the moves under way. Their sandboxes continue on this node. */
  close(): void {
    this.#closing.abort(new Error('closing'))
  }

  #goesOn(): boolean {
    return this.#parts.membership.isDraining && !this.#closing.signal.aborted
  }

  async #runSteps(steps: readonly Step[], goesOn = () => !this.#closing.signal.aborted): Promise<void> {
    const queue = steps.values()
    const work = async () => {
      for (const step of queue) {
        if (!goesOn()) return
        await this.#attempt(step)
      }
    }
    await Promise.all(Array.from({ length: migrationsAtOnce }, work))
  }

  async #attempt({ sandboxID, run }: Step): Promise<void> {
    const { clock, log } = this.#parts
    const before = this.#problems.get(sandboxID)
    if (before && clock.now() < before.retryAt) return
    try {
      await this.#migrations.run(sandboxID, run)
      this.#problems.delete(sandboxID)
    } catch (error) {
      const text = errorText(error)
      this.#problems.set(sandboxID, { text, retryAt: clock.now() + retryAfterMs })
      if (before?.text !== text && !this.#closing.signal.aborted)
        log.warn(
          { sandboxID, err: error },
          'A sandbox could not be moved from a draining node. It is tried again every minute.',
        )
    }
  }

  /** Sandboxes that run or are paused on this node and are not being moved already. */
  async #migrationSteps(): Promise<Step[]> {
    const rows = await this.#parts.sandboxes.listUnended(['running', 'paused'])
    const movable = rows.filter(({ options, runUntil }) => !options.volumeMounts?.length && runUntil === null)
    return movable.map((row) => ({
      sandboxID: row.sandboxID,
      run: () => (row.state === 'running' ? this.#migrate(row) : this.#give(row)),
    }))
  }

  /**
   * Sandboxes that a drain has paused and nobody has resumed yet: this node's own, and those of nodes that
   * are away.
   */
  async #departures(): Promise<Step[]> {
    const { membership, rows, clock } = this.#parts
    if (!membership.isDraining && clock.now() < this.#nextLookAt) return []
    const listed = await rows.listDepartures()
    this.#nextLookAt = listed.length > 0 ? clock.now() : clock.now() + lookEveryMs
    return listed.map((departed) => ({
      sandboxID: departed.sandboxID,
      run: () => (departed.nodeID === membership.nodeID ? this.#finish(departed) : this.#rescue(departed)),
    }))
  }

  async #migrate(seen: Sandbox): Promise<void> {
    const { rows, canMigrateMemory, readNeeds } = this.#parts
    if (!canMigrateMemory || this.#endsSoon(seen)) return
    if (!(await rows.findStoredBuild(seen.buildID))) return
    const node = await this.#nodeFor(seen, { needsCapacity: true, needs: await readNeeds(seen) })
    const paused = await this.#pause(seen)
    if (paused) await this.#handOver(paused, async () => node)
  }

  /** False also for a sandbox whose client keeps extending its time: it could hold up the drain for ever. */
  #endsSoon({ sandboxID, endAt }: Sandbox): boolean {
    if (endAt - this.#parts.clock.now() >= minLeftMs) return false
    const firstEnd = this.#firstEnds.get(sandboxID) ?? endAt
    this.#firstEnds.set(sandboxID, firstEnd)
    return endAt <= firstEnd
  }

  /**
   * Reads the row again if a client has changed the timeout since the sandbox was listed: the new timeout
   * applies.
   */
  async #pause(seen: Sandbox): Promise<Sandbox | undefined> {
    const { upkeep, sandboxes } = this.#parts
    let row: Sandbox | undefined = seen
    for (let pauses = 0; pauses < maxPauses; pauses++) {
      if (row?.state !== 'running' || row.runID !== seen.runID) return undefined
      const paused = await upkeep.pauseAsSeen(row, { departs: true })
      if (paused) return paused
      row = await sandboxes.find(seen.sandboxID)
    }
    return undefined
  }

  /** Chooses the target node again with each attempt. */
  async #finish({ sandboxID, runID }: PausedSandbox): Promise<void> {
    const { sandboxes, rows } = this.#parts
    const row = await sandboxes.find(sandboxID)
    if (row?.state !== 'paused' || row.runID !== runID || row.runUntil === null) return
    const mayMigrate = this.#goesOn() && (await rows.findStoredBuild(row.buildID))
    const needs = async () => (await rows.findPaused(sandboxID))?.stored?.needs ?? null
    if (mayMigrate)
      await this.#handOver(row, async () => this.#nodeFor(row, { needsCapacity: true, needs: await needs() }))
    else await resumeDeparted(this.#parts, row)
  }

  /** If the hand-over fails, the sandbox continues here, unless the other node has its row by now. */
  async #handOver({ sandboxID, runID }: Sandbox, choose: () => Promise<ClusterNode>): Promise<void> {
    const { uploader } = this.#parts
    try {
      const node = await choose()
      await uploader.storeSandbox({ sandboxID, runID })
      await this.#offer(node, { sandboxID, runID })
    } catch (error) {
      await resumeDeparted(this.#parts, { sandboxID, runID })
      throw error
    }
  }

  /**
   * Takes over a sandbox whose new owner went away before it resumed it. Leaves the sandbox to other nodes if
   * this machine cannot use its memory.
   */
  async #rescue({ sandboxID, runID, nodeID, stored }: PausedSandbox): Promise<void> {
    const { membership, migrator, log } = this.#parts
    const nodes = await membership.nodes()
    const owner = nodes.find((node) => node.nodeID === nodeID)
    if (!stored || (owner && !isUnreachable(owner))) return
    const isLeftToOthers = nodes.some((node) => node.status === 'ready' && !isUnreachable(node))
    if (membership.isDraining && isLeftToOthers) return
    const isMine = await migrator.claim(sandboxID, { memory: true, from: nodeID }).catch((error) => {
      if (isAppError(error, 'unprocessable')) return false
      throw error
    })
    if (isMine && (await resumeDeparted(this.#parts, { sandboxID, runID })))
      log.info(
        { sandboxID, from: nodeID },
        'This node resumed a sandbox that was being moved to a node that is away.',
      )
  }

  /** Leaves a paused sandbox that is not stored yet for a later round. */
  async #give(row: Sandbox): Promise<void> {
    const { rows } = this.#parts
    const { sandboxID, buildID } = row
    const stored = (await rows.findPaused(sandboxID))?.stored
    if (!stored || !(await rows.findStoredBuild(buildID))) return
    const node = await this.#nodeFor(row, { needsCapacity: false, needs: stored.needs })
    await this.#offer(node, row)
  }

  async #offer(node: ClusterNode, sandbox: Pick<Sandbox, 'sandboxID' | 'runID'>): Promise<void> {
    const { handOver, membership } = this.#parts
    const { sandboxID, runID } = sandbox
    const offered = { sandboxID, runID, nodeID: membership.nodeID }
    await handOver(node, offered, this.#closing.signal).catch((error) => {
      const known = this.#unfit.get(sandboxID) ?? new Set()
      if (isAppError(error, 'unprocessable')) this.#unfit.set(sandboxID, known.add(node.runID))
      throw error
    })
  }

  /**
   * Asks each candidate whether it can use the memory, because nothing else tells: two releases may have the same
   * runtime and agent, and a node keeps those of earlier releases.
   */
  async #nodeFor(row: Sandbox, { needsCapacity, needs }: NodeDemand): Promise<ClusterNode> {
    const { membership, askWhyUnfit, drawBelow } = this.#parts
    const { templateID, cpuCount, memoryMB, gpuCount = 0, buildID, sandboxID } = row
    const unfit = this.#unfit.get(sandboxID)
    const nodes = (await membership.nodes()).filter(({ runID }) => !unfit?.has(runID))
    const sizes = { cpuCount, memoryMB, gpuCount }
    const demand = { templateID, ...sizes, builder: membership.nodeID, buildID, isBound: false }
    const ranked = rankNodes(nodes, demand, { sentTo: () => ({ cpuCount: 0, memoryMB: 0 }), drawBelow })
    let why: string | undefined
    for (const { node, hasCapacity } of ranked) {
      if (needsCapacity && !hasCapacity) continue
      // A node that does not answer is not the target, whatever it can restore.
      const asked = needs ? askWhyUnfit(node, needs, this.#closing.signal).catch(errorText) : undefined
      const reason = await asked
      if (reason === undefined) return node
      why ??= reason
    }
    throw new AppError(
      'unavailable',
      why === undefined
        ? 'No other node of this kind has capacity for the sandbox now.'
        : `No other node with capacity can use the memory of the sandbox. ${why}`,
    )
  }
}
