/** A template as far as it is built, and the sandbox in which the next step runs. */

import type { Images } from '../../core/ports/images.ts'
import type { BuildSandbox, BuildSandboxes } from '../../core/sandbox/builds/build-sandboxes.ts'
import { newStepSnapshotName } from '../../core/sandbox/snapshots/snapshot-names.ts'
import type { SnapshotStore } from '../../core/sandbox/snapshots/snapshot-store.ts'
import type { CachedStep } from '../../core/template/build-cache-store.ts'
import type { TemplateBuild } from '../../core/template/template.ts'

/** Everything that the next step needs; the cache stores exactly this. */
export type Stage = CachedStep

/** A boot takes about as long as copying this much. */
const copyAtMostBytes = 64 * 2 ** 20

type SiteParts = {
  buildSandboxes: BuildSandboxes
  snapshots: SnapshotStore
  images: Pick<Images, 'protect' | 'missing'>
}

export class BuildSite {
  readonly #parts: SiteParts
  readonly #build: TemplateBuild
  readonly #signal: AbortSignal
  readonly #releases: (() => void)[] = []
  #stage: Stage
  #sandbox: BuildSandbox | undefined
  /** True if the present step has used the sandbox. */
  #isUsed = false

  constructor(parts: SiteParts, build: TemplateBuild, stage: Stage, signal: AbortSignal) {
    this.#parts = parts
    this.#build = build
    this.#stage = stage
    this.#signal = signal
    this.#protectAll(stage)
  }

  get stage(): Stage {
    return this.#stage
  }

  /** Continues from the stage of an earlier build. False if its files no longer exist. */
  async adopt(stage: Stage): Promise<boolean> {
    this.#protectAll(stage)
    if (this.#parts.images.missing(stage.layers ?? []).length > 0) return false
    if (stage.snapshotName !== null && !(await this.#parts.snapshots.find(stage.snapshotName))) return false
    await this.#leave()
    this.#stage = stage
    return true
  }

  /** Changes everything that a step can change besides files. */
  change(changes: Partial<Pick<Stage, 'envVars' | 'user' | 'workdir'>>): void {
    this.#stage = { ...this.#stage, ...changes }
  }

  /**
   * Returns the sandbox of the stage, booted when a step first needs it. The steps that follow continue in
   * it, with its running processes. No step may rely on those: a step from the cache leaves only files.
   */
  async sandbox({ writes = true } = {}): Promise<BuildSandbox> {
    this.#isUsed ||= writes
    this.#sandbox ??= await this.#parts.buildSandboxes.open(this.asBuild(), this.#signal)
    return this.#sandbox
  }

  /** Makes everything written so far part of the stage, under the key of the finished step. */
  async complete(key: string): Promise<Stage> {
    if (this.#sandbox && this.#isUsed) {
      const name = newStepSnapshotName()
      this.protect(name)
      await this.#takeSnapshot(this.#sandbox, name)
      this.#isUsed = false
      this.#stage = { ...this.#stage, snapshotName: name }
    }
    this.#stage = { ...this.#stage, key }
    return this.#stage
  }

  /** Hands over the disk itself if copying it would take longer than booting the next sandbox on it. */
  async #takeSnapshot(sandbox: BuildSandbox, name: string): Promise<void> {
    if ((await sandbox.writtenBytes()) <= copyAtMostBytes) return sandbox.snapshotFiles(name, this.#signal)
    await sandbox.snapshotAndEnd(name, false, this.#signal)
    await this.#leave()
  }

  /** The result after all steps. */
  async finish(): Promise<TemplateBuild> {
    await this.#leave()
    return this.asBuild()
  }

  asBuild(): TemplateBuild {
    const { layers, rootFolder, snapshotName, envVars, user, workdir } = this.#stage
    const snapshot = snapshotName === null ? null : { name: snapshotName, memory: false, sandboxID: '' }
    const context = { envVars, defaultUser: user, defaultWorkdir: workdir }
    const noService = { startCmd: null, readyCmd: null, serviceContext: null }
    return { ...this.#build, layers, rootFolder, snapshot, ...context, ...noService }
  }

  /** Ends the sandbox and releases everything that only this site held. */
  async close(): Promise<void> {
    try {
      await this.#leave()
    } finally {
      for (const release of this.#releases.splice(0)) release()
    }
  }

  async #leave(): Promise<void> {
    const sandbox = this.#sandbox
    this.#sandbox = undefined
    await sandbox?.close()
  }

  /** Protects a snapshot from the sweep until the site is closed. */
  protect(name: string): void {
    this.#releases.push(this.#parts.snapshots.protect(name))
  }

  #protectAll({ snapshotName, layers }: Stage): void {
    if (snapshotName !== null) this.protect(snapshotName)
    if (layers !== null) this.#releases.push(this.#parts.images.protect(layers))
  }
}
