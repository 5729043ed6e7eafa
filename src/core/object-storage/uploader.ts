/**
 * Uploads builds and snapshots of paused sandboxes to the object store, in the background: both are safe on
 * the disk already. A row is marked as stored only after all its bytes are. A failure is logged once and
 * tried again every round; a crash leaves at most an object that no row needs.
 */
import { AppError, errorText, isAppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import type { RemoteLayers } from '../ports/images.ts'
import type { ObjectKey, PackStore } from '../ports/object-store.ts'
import { buildKey, layerKey, sandboxKey } from './keys.ts'
import type { LogCarrier } from './log-carrier.ts'
import type { PausedSandbox, RemoteBytes, RemoteBytesStore, StorableBuild } from './remote-bytes-store.ts'
import type { RemoteSnapshots } from './remote-snapshots.ts'

type UploaderParts = {
  rows: RemoteBytesStore
  snapshots: RemoteSnapshots
  layers: RemoteLayers
  logs: LogCarrier
  packs: PackStore
  clock: Clock
  log: Log
}

/** Uploads compete with sandboxes for the disk and the network. */
const uploadsAtOnce = 2

/** A round ends after this many failures, because the object store is most likely away. */
const maxFailures = 5

type Upload = { subject: string; run: () => Promise<void> }

export class Uploader {
  readonly #parts: UploaderParts
  readonly #closing = new AbortController()
  /** The last problem that was logged for each subject and is not solved yet. */
  readonly #problems = new Map<string, string>()
  /** Subjects whose snapshots only this machine can use. */
  readonly #unfit = new Set<string>()
  readonly #uploads = new JoinedWork<void>()
  #round: Promise<void> | undefined
  #isDue = false

  constructor(parts: UploaderParts) {
    this.#parts = parts
  }

  /** Starts a round in the background, because there may be something new to upload. */
  readonly nudge = (): void => {
    void this.run().catch((err) =>
      this.#parts.log.warn({ err }, 'The list of builds and snapshots to upload could not be read.'),
    )
  }

  /**
   * Runs one round at a time. A call during a round waits until a round that began after the call has ended.
   */
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
   * Uploads a sandbox that was paused in this run on this node at once, ahead of the queue. Rejects if the
   * upload fails.
   */
  async storeSandbox({ sandboxID, runID }: Pick<PausedSandbox, 'sandboxID' | 'runID'>): Promise<void> {
    const paused = await this.#parts.rows.findPaused(sandboxID)
    // In this run no other node can own the sandbox before its snapshot is stored.
    if (paused?.runID === runID && !paused.stored) await this.#uploadOfSandbox(paused).run()
  }

  /** What the object store does not have yet. `onlyHere`: of these, what only this machine can use. */
  async waiting(): Promise<{ builds: number; sandboxes: number; onlyHere: number }> {
    const { rows } = this.#parts
    const [builds, sandboxes] = [await rows.listUnstoredBuilds(), await rows.listUnstored()]
    return { builds: builds.length, sandboxes: sandboxes.length, onlyHere: this.#unfit.size }
  }

  /** What it remembers problems of. */
  get troubled(): string[] {
    return [...this.#unfit, ...this.#problems.keys()]
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('closing'))
    await this.#round?.catch(() => {})
  }

  async #rounds(): Promise<void> {
    do {
      this.#isDue = false
      await this.#uploadAll()
    } while (this.#isDue && !this.#closing.signal.aborted)
  }

  async #uploadAll(): Promise<void> {
    const { rows } = this.#parts
    const builds = (await rows.listUnstoredBuilds()).map((build) => this.#uploadOfBuild(build))
    const sandboxes = (await rows.listUnstored()).map((sandbox) => this.#uploadOfSandbox(sandbox))
    const unstored = [...builds, ...sandboxes]
    this.#forgetAllBut(new Set(unstored.map(({ subject }) => subject)))
    const due = unstored.filter(({ subject }) => !this.#unfit.has(subject))
    // Uploads that failed in the last round come last, so that they do not delay the others.
    const uploads = Object.groupBy(due, ({ subject }) => (this.#problems.has(subject) ? 'again' : 'first'))
    const queue = [...(uploads.first ?? []), ...(uploads.again ?? [])].values()
    let failures = 0
    const work = async () => {
      for (const upload of queue) {
        if (this.#closing.signal.aborted || failures >= maxFailures) return
        if (!(await this.#attempt(upload))) failures++
      }
    }
    await Promise.all(Array.from({ length: uploadsAtOnce }, work))
  }

  /** The others were stored, resumed or removed. */
  #forgetAllBut(subjects: ReadonlySet<string>): void {
    for (const remembered of [this.#unfit, this.#problems])
      for (const subject of remembered.keys()) if (!subjects.has(subject)) remembered.delete(subject)
  }

  #uploadOfBuild({ buildID, layers, snapshotName, isDoubted }: StorableBuild): Upload {
    const { rows, layers: remoteLayers, snapshots, clock } = this.#parts
    const { signal } = this.#closing
    const run = async () => {
      // Only this node has the bytes to mend it, so only what it sees itself counts.
      const isMissing =
        isDoubted && snapshotName !== null && !(await snapshots.factsOf(buildKey(snapshotName)))
      if (isMissing) await rows.unmarkBuild(buildID)
      const shared = await remoteLayers.sharedNames(layers)
      const isRenamed = shared.join() !== layers.join()
      // The row names them first, so that no sweep removes what is about to be uploaded.
      if (isRenamed && !(await rows.renameLayers(buildID, layers, shared))) return
      await this.#requireUncondemned([
        ...shared.map(layerKey),
        ...(snapshotName === null ? [] : [buildKey(snapshotName)]),
      ])
      await remoteLayers.store(shared, signal)
      const result: Omit<RemoteBytes, 'at'> | undefined =
        snapshotName === null
          ? { needs: null }
          : await snapshots.store(snapshotName, buildKey(snapshotName), signal)
      if (result) await rows.markBuild(buildID, { at: clock.now(), ...storedFacts(result) })
    }
    return { subject: `build ${buildID}`, run }
  }

  #uploadOfSandbox(sandbox: PausedSandbox): Upload {
    const { rows, snapshots, logs, packs, clock } = this.#parts
    const { sandboxID, runID, snapshotName } = sandbox
    const key = sandboxKey(sandbox)
    const upload = async () => {
      const result = await snapshots.store(
        snapshotName,
        key,
        this.#closing.signal,
        await logs.pack(sandboxID),
      )
      if (!result) return
      const isStillPaused = await rows.markSandbox(
        { sandboxID, runID },
        { at: clock.now(), ...storedFacts(result) },
      )
      // If an earlier upload of this run made the object, another node may load memory from it.
      if (isStillPaused || !result.isNew) return
      // Another upload of the same run may have finished first, and another node may own the sandbox now.
      const now = await rows.findPaused(sandboxID)
      // The sandbox was resumed while its files were read, so the upload may mix two moments. No row will
      // ever name it.
      if (now?.runID !== runID) await packs.remove(key)
    }
    const subject = `sandbox ${sandboxID} in run ${runID}`
    return { subject, run: () => this.#uploads.run(subject, upload) }
  }

  /**
   * Call this when the row exists, and before reading which objects the store has. A sweep that condemns one
   * of these keys later sees the row first and leaves the object, so objects that are found after this call
   * stay.
   */
  async #requireUncondemned(keys: readonly ObjectKey[]): Promise<void> {
    const condemned = await this.#parts.rows.findCondemned(keys)
    if (condemned.length === 0) return
    throw new AppError(
      'unavailable',
      'The object store is removing objects that this upload needs, because no row needed them before. The upload runs again after that.',
    )
  }

  /** Returns false if the upload failed and may succeed later. */
  async #attempt({ subject, run }: Upload): Promise<boolean> {
    const { log } = this.#parts
    try {
      await run()
      if (this.#problems.delete(subject)) log.info({ subject }, 'An upload that failed before has succeeded.')
      return true
    } catch (error) {
      if (this.#closing.signal.aborted) return false
      if (isAppError(error, 'unprocessable')) {
        this.#unfit.add(subject)
        log.info(
          { subject, why: error.message },
          'Only this machine can use this snapshot, so it is not uploaded.',
        )
        return true
      }
      if (this.#problems.get(subject) === errorText(error)) return false
      this.#problems.set(subject, errorText(error))
      log.warn(
        { subject, err: error },
        'An upload to the object store failed. The bytes are safe on the disk, and every round tries again.',
      )
      return false
    }
  }
}

const storedFacts = ({ needs, index }: Omit<RemoteBytes, 'at'>) => ({
  needs,
  ...(index !== undefined && { index }),
})
