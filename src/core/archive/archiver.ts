/**
 * Brings the bytes of builds and of paused sandboxes to the object store, behind the back of whoever made them: they are
 * safe on the disk already. The row says so only when all is there. What fails is told once and tried again every round;
 * a crash leaves at most an object that no row needs.
 */
import { AppError, errorText, isAppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import type { LayerArchive } from '../ports/images.ts'
import type { ObjectKey, PackStore } from '../ports/object-store.ts'
import type { ArchivableBuild, ArchiveStore, PausedSandbox } from './archive-store.ts'
import { buildKey, layerKey, sandboxKey } from './keys.ts'
import type { LogCarrier } from './log-carrier.ts'
import type { SnapshotArchive } from './snapshot-archive.ts'

export type ArchiverParts = {
  rows: ArchiveStore
  snapshots: SnapshotArchive
  layers: LayerArchive
  logs: LogCarrier
  packs: PackStore
  clock: Clock
  log: Log
}

/** Uploads compete with sandboxes for the disk and the network. */
const uploadsAtOnce = 2

/** After so many failures a round ends: the object store is most likely away. */
const mostFailures = 5

type Upload = { subject: string; run: () => Promise<void> }

export class Archiver {
  readonly #parts: ArchiverParts
  readonly #closing = new AbortController()
  /** What was logged about whom and holds on. */
  readonly #problems = new Map<string, string>()
  /** What is good on this machine alone. */
  readonly #unfit = new Set<string>()
  readonly #uploads = new JoinedWork<void>()
  #round: Promise<void> | undefined
  #isDue = false

  constructor(parts: ArchiverParts) {
    this.#parts = parts
  }

  /** Something new may be there. Nobody waits for it. */
  readonly nudge = (): void => {
    void this.run().catch((err) =>
      this.#parts.log.warn({ err }, 'What is to be archived cannot be found out now.'),
    )
  }

  /** One round after the other; callers during a round wait for one that begins after it. */
  run(): Promise<void> {
    if (this.#closing.signal.aborted) return Promise.resolve()
    if (this.#round) {
      this.#isDue = true
      return this.#round
    }
    this.#round = this.#rounds().finally(() => {
      this.#round = undefined
    })
    return this.#round
  }

  /**
   * Brings a sandbox that was paused in that run on this node there now, whatever else waits. Rejects when that could not
   * be done.
   */
  async archiveSandbox({ sandboxID, runID }: Pick<PausedSandbox, 'sandboxID' | 'runID'>): Promise<void> {
    const paused = await this.#parts.rows.findPaused(sandboxID)
    // In that run no other node can have it before it is archived.
    if (paused?.runID === runID && !paused.archived) await this.#uploadOfSandbox(paused).run()
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('closing'))
    await this.#round?.catch(() => {})
  }

  async #rounds(): Promise<void> {
    do {
      this.#isDue = false
      await this.#archiveAll()
    } while (this.#isDue && !this.#closing.signal.aborted)
  }

  async #archiveAll(): Promise<void> {
    const { rows } = this.#parts
    const builds = (await rows.listUnarchivedBuilds()).map((build) => this.#uploadOfBuild(build))
    const sandboxes = (await rows.listUnarchived()).map((sandbox) => this.#uploadOfSandbox(sandbox))
    const due = [...builds, ...sandboxes].filter(({ subject }) => !this.#unfit.has(subject))
    // What failed the last time comes last, so that it keeps nobody else waiting.
    const uploads = Object.groupBy(due, ({ subject }) => (this.#problems.has(subject) ? 'again' : 'first'))
    const queue = [...(uploads.first ?? []), ...(uploads.again ?? [])].values()
    let failures = 0
    const work = async () => {
      for (const upload of queue) {
        if (this.#closing.signal.aborted || failures >= mostFailures) return
        if (!(await this.#attempt(upload))) failures++
      }
    }
    await Promise.all(Array.from({ length: uploadsAtOnce }, work))
  }

  #uploadOfBuild({ buildID, layers, snapshotName }: ArchivableBuild): Upload {
    const { rows, layers: layerArchive, snapshots, clock } = this.#parts
    const { signal } = this.#closing
    const run = async () => {
      await this.#requireUncondemned([
        ...layers.map(layerKey),
        ...(snapshotName === null ? [] : [buildKey(snapshotName)]),
      ])
      await layerArchive.archive(layers, signal)
      const saved =
        snapshotName === null
          ? { needs: null }
          : await snapshots.save(snapshotName, buildKey(snapshotName), signal)
      if (saved) await rows.markBuild(buildID, { at: clock.now(), needs: saved.needs })
    }
    return { subject: `build ${buildID}`, run }
  }

  #uploadOfSandbox(sandbox: PausedSandbox): Upload {
    const { rows, snapshots, logs, packs, clock } = this.#parts
    const { sandboxID, runID, snapshotName } = sandbox
    const key = sandboxKey(sandbox)
    const upload = async () => {
      const saved = await snapshots.save(snapshotName, key, this.#closing.signal, await logs.pack(sandboxID))
      if (!saved) return
      const isStillPaused = await rows.markSandbox(
        { sandboxID, runID },
        { at: clock.now(), needs: saved.needs },
      )
      if (isStillPaused) return
      // Another upload of the same run may have come first, and another node may have the sandbox by now.
      const now = await rows.findPaused(sandboxID)
      // It was resumed while its files were read, so these may be of two moments. No row will ever name them.
      if (now?.runID !== runID) await packs.remove(key)
    }
    const subject = `sandbox ${sandboxID} in run ${runID}`
    return { subject, run: () => this.#uploads.run(subject, upload) }
  }

  /**
   * To be called when the row is there and before it is looked what the object store has. Whoever condemns one of these
   * later sees the row first, and leaves it; so what is found there after this call stays.
   */
  async #requireUncondemned(keys: readonly ObjectKey[]): Promise<void> {
    const condemned = await this.#parts.rows.findCondemned(keys)
    if (condemned.length === 0) return
    throw new AppError(
      'unavailable',
      'Objects that it needs are just being removed, since nothing needed them before; they are put there again after that.',
    )
  }

  /** False: it failed, and may succeed later. */
  async #attempt({ subject, run }: Upload): Promise<boolean> {
    const { log } = this.#parts
    try {
      await run()
      if (this.#problems.delete(subject)) log.info({ subject }, 'The object store has it now.')
      return true
    } catch (error) {
      if (this.#closing.signal.aborted) return false
      if (isAppError(error, 'unprocessable')) {
        this.#unfit.add(subject)
        log.info({ subject, why: error.message }, 'This stays on the disk of this machine alone.')
        return true
      }
      if (this.#problems.get(subject) === errorText(error)) return false
      this.#problems.set(subject, errorText(error))
      log.warn(
        { subject, err: error },
        'This could not be brought to the object store; it is on the disk, and every round tries again.',
      )
      return false
    }
  }
}
