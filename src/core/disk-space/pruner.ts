/**
 * Removes what can be made or fetched again: cached build steps with their snapshots, image layers that
 * nothing uses, files uploaded for COPY. Everything that a template, a running build, a sandbox or a snapshot
 * needs stays. Each removal checks again, atomically, that nobody has begun to use the thing meanwhile.
 */
import type { Clock } from '../../lib/clock.ts'
import { KeyedLock } from '../../lib/keyed-lock.ts'
import type { Driver } from '../ports/driver.ts'
import type { Freed, Images } from '../ports/images.ts'
import type { SandboxReader } from '../sandbox/row/sandbox-store.ts'
import { snapshotNamesInUse } from '../sandbox/snapshots/names-in-use.ts'
import type { Quarantine } from '../sandbox/snapshots/quarantine.ts'
import type { SnapshotStore } from '../sandbox/snapshots/snapshot-store.ts'
import type { BuildCacheStore, CacheUse } from '../template/build-cache-store.ts'
import type { BuildFiles, UploadedFiles } from '../template/builder.ts'
import type { TemplateStore } from '../template/template-store.ts'

type PrunerParts = {
  templates: TemplateStore
  sandboxes: SandboxReader
  cache: BuildCacheStore
  files: BuildFiles
  images: Pick<Images, 'prune'>
  snapshots: SnapshotStore
  quarantine: Pick<Quarantine, 'names'>
  driver: Driver
  clock: Clock
}

export type PruneOptions = {
  /** Prunes only steps and files that were last used before this time. */
  before: number
  dryRun: boolean
}

export type PruneReport = Record<'steps' | 'savedStates' | 'layers' | 'files', Freed>

export class Pruner {
  readonly #parts: PrunerParts
  readonly #lock = new KeyedLock()

  constructor(parts: PrunerParts) {
    this.#parts = parts
  }

  run({ before, dryRun }: PruneOptions): Promise<PruneReport> {
    return this.#lock.run('', async () => {
      const { cache, snapshots, images } = this.#parts
      const unused = await this.#unused(before)
      const steps = dryRun ? unused.steps : await cache.remove(unused.steps)
      const isGone = dryRun ? goneOf(steps) : () => false
      const swept = await snapshots.sweep(
        async () => [
          ...(await snapshotNamesInUse(this.#parts)),
          ...(await cache.list()).flatMap((step) =>
            isGone(step) || !step.snapshotName ? [] : [step.snapshotName],
          ),
        ],
        { dryRun },
      )
      const used = await this.#usedLayers(isGone, new Set(swept.names))
      const layers = await images.prune(used, { dryRun })
      const files = unused.files.filter((one) => dryRun || this.#parts.files.remove(one))
      return {
        steps: { count: steps.length, bytes: 0 },
        savedStates: { count: swept.names.length, bytes: swept.bytes },
        layers,
        files: { count: files.length, bytes: sumOf(files) },
      }
    })
  }

  /** Times of last use of everything that can be pruned, earliest first. */
  async oldestUses(max: number): Promise<number[]> {
    const { steps, files } = await this.#unused(Number.MAX_SAFE_INTEGER)
    const times = [...steps, ...files].map(({ usedAt }) => usedAt)
    return times.sort((a, b) => a - b).slice(0, max)
  }

  async #unused(before: number): Promise<{ steps: CacheUse[]; files: UploadedFiles[] }> {
    const { templates, cache, files, clock } = this.#parts
    // A build that has not ended may use everything that was used since it was requested.
    const unfinished = await templates.listBuildsIn(['waiting', 'building'], Number.MAX_SAFE_INTEGER)
    const until = Math.min(before, clock.now(), ...unfinished.map(({ createdAt }) => createdAt))
    const isOld = ({ usedAt }: { usedAt: number }) => usedAt < until
    const names = new Set(await templates.listSnapshotNames())
    const layers = new Set(await templates.listLayers())
    const takesSpace = (step: CacheUse) =>
      (step.snapshotName !== null && !names.has(step.snapshotName)) ||
      (step.layers ?? []).some((layer) => !layers.has(layer))
    return {
      // A cached step whose files belong to a template takes no disk space of its own, so it stays.
      steps: (await cache.list()).filter((step) => isOld(step) && takesSpace(step)),
      files: (await files.list()).filter(isOld),
    }
  }

  /**
   * Reads the layers of sandboxes and snapshots from their own records, because their template may be
   * deleted.
   */
  async #usedLayers(isGone: (step: CacheUse) => boolean, sweptNames: ReadonlySet<string>) {
    const { templates, cache, snapshots, driver } = this.#parts
    const folders = (await driver.list()).flatMap((found) => {
      // The layers of a sandbox with an unreadable record are unknown, so no layer may be removed now.
      if (found.unreadable) throw found.unreadable
      return found.roots
    })
    for (const name of await snapshots.names()) {
      const state = sweptNames.has(name) ? undefined : await snapshots.find(name)
      if (state) folders.push(...state.roots)
    }
    const steps = (await cache.list()).filter((step) => !isGone(step))
    const layers = [...(await templates.listLayers()), ...steps.flatMap((step) => step.layers ?? [])]
    return { layers, folders }
  }
}

function goneOf(steps: readonly CacheUse[]): (step: CacheUse) => boolean {
  const nameOf = ({ teamID, key }: CacheUse) => `${teamID}/${key}`
  const gone = new Set(steps.map(nameOf))
  return (step) => gone.has(nameOf(step))
}

const sumOf = (files: readonly { bytes: number }[]): number =>
  files.reduce((sum, { bytes }) => sum + bytes, 0)
