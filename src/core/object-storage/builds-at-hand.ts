/**
 * Lists the builds of other nodes that this node could start without the object store, because it fetched
 * them before.
 */
import type { Clock } from '../../lib/clock.ts'
import type { Images } from '../ports/images.ts'
import type { RemoteBytesStore } from './remote-bytes-store.ts'

/** How long a result is reused. */
const goodForMs = 10_000

type BuildsAtHandParts = {
  rows: Pick<RemoteBytesStore, 'listForeignBuilds'>
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

  /** Reads the disk at most once every few seconds. */
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
