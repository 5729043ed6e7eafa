/** Which builds of other nodes this one could start without the object store, because it has fetched them before. */
import type { Clock } from '../../lib/clock.ts'
import type { Images } from '../ports/images.ts'
import type { ArchiveStore } from './archive-store.ts'

/** What was found is good for so long. */
const goodForMs = 10_000

export type BuildsAtHandParts = {
  rows: Pick<ArchiveStore, 'listForeignBuilds'>
  images: Pick<Images, 'missing'>
  snapshots: { names(): Promise<string[]> }
  clock: Clock
}

export class BuildsAtHand {
  readonly #parts: BuildsAtHandParts
  #found: readonly string[] = []
  #foundAt = Number.NEGATIVE_INFINITY

  constructor(parts: BuildsAtHandParts) {
    this.#parts = parts
  }

  /** By what lies on the disk, as it was a few seconds ago. */
  async list(): Promise<readonly string[]> {
    const { rows, images, snapshots, clock } = this.#parts
    if (clock.now() - this.#foundAt < goodForMs) return this.#found
    const builds = await rows.listForeignBuilds()
    const names = new Set(builds.length > 0 ? await snapshots.names() : [])
    const isHere = ({ layers, snapshotName }: (typeof builds)[number]) =>
      (snapshotName === null || names.has(snapshotName)) && images.missing(layers).length === 0
    this.#found = builds.filter(isHere).map(({ buildID }) => buildID)
    this.#foundAt = clock.now()
    return this.#found
  }
}
