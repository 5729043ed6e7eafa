/**
 * Fetches layers and snapshots that a start needs from the object store, unless they are on this machine's
 * disk.
 */

import { AppError, isAppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { RemoteLayers } from '../ports/images.ts'
import type { MemoryLoad } from '../ports/memory-load.ts'
import type { RemoteRun, Sandbox, SandboxSnapshot } from '../sandbox/row/sandbox.ts'
import type { BytesSource } from '../sandbox/snapshots/bytes-source.ts'
import type { TemplateBuild } from '../template/template.ts'
import { buildKey, sandboxKey } from './keys.ts'
import type { LogCarrier } from './log-carrier.ts'
import type { PausedSandbox, RemoteBytes, RemoteBytesStore } from './remote-bytes-store.ts'
import type { RemoteSnapshots } from './remote-snapshots.ts'

/** The node of a build looks every minute for bytes that the object store lacks. */
const retryAfterSeconds = 60

type BytesFetcherParts = {
  rows: RemoteBytesStore
  snapshots: RemoteSnapshots
  layers: RemoteLayers
  logs: LogCarrier
  /** False while another node may remove an object from which the memory of a running sandbox arrives. */
  expiresUnusedArrivals: () => Promise<boolean>
  clock: Clock
  log: Log
}

export class BytesFetcher implements BytesSource {
  readonly #parts: BytesFetcherParts

  constructor(parts: BytesFetcherParts) {
    this.#parts = parts
  }

  async fetchBuild(
    build: Pick<TemplateBuild, 'buildID' | 'layers' | 'snapshot'>,
    { withSnapshot }: { withSnapshot: boolean },
    signal: AbortSignal,
  ): Promise<{ memory: boolean }> {
    const { layers: remoteLayers, snapshots, rows, clock, log } = this.#parts
    const { layers, snapshot, buildID } = build
    try {
      if (layers) await remoteLayers.fetch(layers, signal)
      if (!withSnapshot || !snapshot) return { memory: false }
      const { name, memory } = snapshot
      const index = async () => (await rows.findStoredBuild(buildID))?.index
      // Memory is left out of a copy only if this machine cannot use it.
      const options = { serves: () => true, index }
      const here = await snapshots.fetch(name, buildKey(name), { memory }, signal, options)
      if (here) return { memory: here.memory }
      throw new AppError(
        'not_found',
        'The files of the template are neither on this machine nor in the object store.',
      )
    } catch (error) {
      if (isAppError(error, 'not_found')) {
        log.error(
          { buildID, err: error },
          'This node does not find bytes of a build in the object store. If they are missing, the node that built it uploads them ' +
            'again. If other nodes find them, check WARREN_OBJECT_STORE of this node.',
        )
        await rows.doubtBuild(buildID, clock.now())
        throw new AppError('unavailable', `${error.message} Try again later, or build the template again.`, {
          cause: error,
          retry: { should: true, afterSeconds: retryAfterSeconds },
        })
      }
      throw error
    }
  }

  async fetchPaused(
    row: Sandbox,
    { memory, stored }: { memory: boolean; stored: RemoteRun },
    signal: AbortSignal,
  ): Promise<RemoteRun | undefined> {
    const { snapshots, logs, expiresUnusedArrivals } = this.#parts
    const { sandboxID } = row
    const { name, memory: hasMemory } = row.snapshot!
    const wanted = memory && hasMemory
    if (wanted && stored.needs) await this.requireFit(sandboxID, stored.needs)
    const here = await snapshots.fetch(
      name,
      sandboxKey({ sandboxID, runID: stored.runID }),
      { memory: wanted, memoryLater: wanted && (await expiresUnusedArrivals()) },
      signal,
      {
        beside: logs.unpack(sandboxID),
        serves: (copy) => !wanted || copy.memory,
        index: async () => stored.index,
      },
    )
    if (!here) throw snapshotMissing(sandboxID)
    return here.arriving && stored
  }

  async loadMemory({ sandboxID, snapshot }: Sandbox, load: MemoryLoad): Promise<void> {
    const { name, arrivesFrom } = snapshot!
    const key = sandboxKey({ sandboxID, runID: arrivesFrom!.runID })
    await this.#parts.snapshots.fill(name, key, async () => arrivesFrom!.index, load)
  }

  async storedOf({
    sandboxID,
    runID,
    state,
    snapshot,
  }: Pick<Sandbox, 'sandboxID' | 'runID' | 'state' | 'snapshot'>): Promise<RemoteRun | undefined> {
    if (!snapshot || snapshot.frozen) return undefined
    if (state === 'resuming') return this.#storedOfResumed(sandboxID, snapshot)
    const paused = await this.#parts.rows.findPaused(sandboxID)
    const stored = paused?.runID === runID ? await this.#storedOfPaused(paused) : undefined
    return stored && { runID, ...stored }
  }

  /** What the object store keeps for a sandbox that is being resumed. */
  async #storedOfResumed(
    sandboxID: string,
    { arrivesFrom, storedFrom }: SandboxSnapshot,
  ): Promise<RemoteRun | undefined> {
    const { snapshots, expiresUnusedArrivals } = this.#parts
    if (arrivesFrom || !storedFrom || (await expiresUnusedArrivals())) return arrivesFrom ?? storedFrom
    // A node of an earlier release may have removed it.
    const facts = await snapshots.factsOf(sandboxKey({ sandboxID, runID: storedFrom.runID }))
    return facts && storedFrom
  }

  /**
   * For a sandbox whose snapshot is not on this machine. An upload may have been cut off before it marked the row: it is
   * marked now. The object appears whole or not at all, and it is of this very pause, because no resume keeps the run.
   */
  async #storedOfPaused(paused: PausedSandbox): Promise<RemoteBytes | undefined> {
    const { rows, snapshots, clock, log } = this.#parts
    if (paused.stored) return paused.stored
    const facts = await snapshots.factsOf(sandboxKey(paused))
    if (!facts) return undefined
    const stored = { at: clock.now(), ...facts }
    if (!(await rows.markSandbox(paused, stored))) return undefined
    log.warn(
      { sandboxID: paused.sandboxID },
      'The snapshot of a paused sandbox is not on the disk; the object store has it, and is used from now on.',
    )
    return stored
  }

  async requireFit(sandboxID: string, needs: Readonly<Record<string, string>>): Promise<void> {
    const why = await this.#parts.snapshots.whyUnfit(needs)
    if (why !== undefined) throw memoryDoesNotFit(sandboxID, why)
  }
}

const snapshotMissing = (sandboxID: string): AppError =>
  new AppError(
    'unavailable',
    `The object store does not have the snapshot of sandbox "${sandboxID}", which was stored there. The sandbox stays paused. Check that ` +
      'WARREN_OBJECT_STORE names the same bucket and prefix on every machine, and that nothing else removes objects.',
    { retry: { should: true, afterSeconds: retryAfterSeconds } },
  )

const memoryDoesNotFit = (sandboxID: string, why: string): AppError =>
  new AppError(
    'unprocessable',
    `The memory of sandbox "${sandboxID}" cannot be used on this machine. ${why} Resume it without memory, or on a machine like its own.`,
    { retry: { should: false } },
  )
