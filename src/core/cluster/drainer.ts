/**
 * Empties this node while it is draining. A running sandbox is paused with its memory, brought to the object store, and
 * another node resumes it; a paused one goes as it is. Only the row moves, by compare and set, so there are never two of a
 * sandbox. Where a step fails, the sandbox goes on here, or stays paused where its row is; it is told once and tried again.
 */
import { AppError, errorText, isAppError } from '../../lib/app-error.ts'
import { type Clock, sleep } from '../../lib/clock.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import type { ArchiveStore } from '../archive/archive-store.ts'
import type { Archiver } from '../archive/archiver.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SandboxService } from '../sandbox/service.ts'
import type { SandboxStore, TeamStore } from '../stores.ts'
import type { HandOver } from './hand-over.ts'
import type { Membership } from './membership.ts'
import type { ClusterNode } from './node.ts'
import { rankNodes } from './rank-nodes.ts'

/** A move loads the disk and the network, and its sandbox stands still meanwhile. */
const movesAtOnce = 2
/** After a failure a sandbox is left alone for so long: each try makes it stand still. */
const retryAfterMs = 60_000
/** What ends sooner is not worth a move. */
const leastLeftMs = 60_000
/** Requests for a sandbox wait no longer than this for the end of its move. */
const mostWaitMs = 30_000
const leastTimeoutMs = 1000

export type DrainerParts = {
  membership: Pick<Membership, 'nodeID' | 'isDraining' | 'nodes'>
  sandboxes: Pick<SandboxStore, 'find' | 'listUnended'>
  teams: Pick<TeamStore, 'findTeam'>
  rows: Pick<ArchiveStore, 'findPaused' | 'findArchivedBuild'>
  archiver: Pick<Archiver, 'archiveSandbox'>
  service: Pick<SandboxService, 'pauseAsSeen' | 'resumeAsSeen'>
  handOver: HandOver
  /** Snapshots of running sandboxes hold their memory, and other machines can use them. */
  canMoveMemory: boolean
  drawBelow: (count: number) => number
  clock: Clock
  log: Log
}

/** It ran until this node paused it, and is to run on elsewhere; it is not known yet whether it does. */
type Departure = { node: ClusterNode; runID: string; endAt: number }

export class Drainer {
  readonly #parts: DrainerParts
  readonly #closing = new AbortController()
  readonly #moves = new JoinedWork<void>()
  readonly #departures = new Map<string, Departure>()
  /** What was logged of which sandbox, and when it is tried again. */
  readonly #problems = new Map<string, { text: string; retryAt: number }>()

  constructor(parts: DrainerParts) {
    this.#parts = parts
  }

  /** One round; without effect while the node is not draining. */
  async run(): Promise<void> {
    for (const [sandboxID, departure] of this.#departures)
      await this.#attempt(sandboxID, () => this.#finish(sandboxID, departure))
    if (!this.#parts.membership.isDraining) {
      if (this.#departures.size === 0) this.#problems.clear()
      return
    }
    const rows = await this.#parts.sandboxes.listUnended(['running', 'paused'])
    const queue = rows.filter(({ options }) => !options.volumeMounts?.length).values()
    const work = async () => {
      for (const row of queue) {
        if (!this.#goesOn()) return
        await this.#attempt(row.sandboxID, () =>
          row.state === 'running' ? this.#move(row) : this.#give(row),
        )
      }
    }
    await Promise.all(Array.from({ length: movesAtOnce }, work))
  }

  /** Resolves when the sandbox is not being moved, or after a while. */
  async settled(sandboxID: string): Promise<void> {
    const move = this.#moves.get(sandboxID)
    if (move) await Promise.race([move.catch(() => {}), sleep(this.#parts.clock, mostWaitMs)])
  }

  /** What is under way is called off; the sandboxes go on here. */
  close(): void {
    this.#closing.abort(new Error('closing'))
  }

  #goesOn(): boolean {
    return this.#parts.membership.isDraining && !this.#closing.signal.aborted
  }

  async #attempt(sandboxID: string, work: () => Promise<void>): Promise<void> {
    const { clock, log } = this.#parts
    const before = this.#problems.get(sandboxID)
    if (before && clock.now() < before.retryAt) return
    try {
      await this.#moves.run(sandboxID, work)
      this.#problems.delete(sandboxID)
    } catch (error) {
      const text = errorText(error)
      // What no other node can use is not tried again.
      const retryAt = isAppError(error, 'unprocessable')
        ? Number.POSITIVE_INFINITY
        : clock.now() + retryAfterMs
      this.#problems.set(sandboxID, { text, retryAt })
      if (before?.text !== text && !this.#closing.signal.aborted)
        log.warn({ sandboxID, err: error }, 'A sandbox could not be moved off this node, which is draining.')
    }
  }

  async #move(seen: Sandbox): Promise<void> {
    const { service, rows, canMoveMemory, clock } = this.#parts
    const { sandboxID, buildID, endAt } = seen
    if (!canMoveMemory || endAt - clock.now() < leastLeftMs) return
    if (!(await rows.findArchivedBuild(buildID))) return
    const node = await this.#nodeFor(seen, { withRoom: true })
    const paused = await service.pauseAsSeen(seen)
    if (!paused) return
    const departure = { node, runID: paused.runID, endAt }
    this.#departures.set(sandboxID, departure)
    await this.#finish(sandboxID, departure)
  }

  /** May be done again until it is known that nothing is left to do. */
  async #finish(sandboxID: string, departure: Departure): Promise<void> {
    const { archiver, handOver } = this.#parts
    const { node, runID, endAt } = departure
    try {
      await archiver.archiveSandbox({ sandboxID, runID })
      await handOver(node, { sandboxID, runID, timeoutMs: this.#leftUntil(endAt) }, this.#closing.signal)
      this.#departures.delete(sandboxID)
    } catch (error) {
      await this.#goOnHere(sandboxID, departure)
      throw error
    }
  }

  /** A paused sandbox that the object store does not have yet is left for a later round. */
  async #give(row: Sandbox): Promise<void> {
    const { rows, handOver } = this.#parts
    const { sandboxID, runID, buildID } = row
    if (!(await rows.findPaused(sandboxID))?.archived || !(await rows.findArchivedBuild(buildID))) return
    const node = await this.#nodeFor(row, { withRoom: false })
    await handOver(node, { sandboxID, runID, timeoutMs: null }, this.#closing.signal)
  }

  /** Unless the other node has it after all, or somebody else changed it. */
  async #goOnHere(sandboxID: string, { runID, endAt }: Departure): Promise<void> {
    const { sandboxes, teams, service } = this.#parts
    const row = await sandboxes.find(sandboxID)
    if (row?.state !== 'paused' || row.runID !== runID) return
    const team = await teams.findTeam(row.teamID)
    if (team && (await service.resumeAsSeen(row, team, this.#leftUntil(endAt))))
      this.#departures.delete(sandboxID)
  }

  #leftUntil(endAt: number): number {
    return Math.max(leastTimeoutMs, endAt - this.#parts.clock.now())
  }

  async #nodeFor(row: Sandbox, { withRoom }: { withRoom: boolean }): Promise<ClusterNode> {
    const { membership, drawBelow } = this.#parts
    const { templateID, cpuCount, memoryMB, buildID } = row
    const nodes = await membership.nodes()
    const self = nodes.find(({ nodeID }) => nodeID === membership.nodeID)
    const like = nodes.filter(({ facts }) => facts.version === self?.facts.version)
    const demand = { templateID, cpuCount, memoryMB, builder: membership.nodeID, buildID, isBound: false }
    const [best] = rankNodes(like, demand, () => ({ cpuCount: 0, memoryMB: 0 }), drawBelow)
    if (best && (best.hasRoom || !withRoom)) return best.node
    throw new AppError('unavailable', 'No other node of this kind and version has room for it now.')
  }
}
