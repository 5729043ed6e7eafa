/**
 * One pull, from a name to layers on disk. Knows no other pulls; the store lets pulls share the fetch of a
 * layer.
 */
import type { PulledImage, PullOptions } from '../core/ports/images.ts'
import { AppError } from '../lib/app-error.ts'
import { digestOf } from './digest.ts'
import { parseImageConfig } from './image-config.ts'
import { blobBytes, fetchConfig, fetchDocument, type ImageSource } from './image-source.ts'
import type { LocalLayer } from './layer-record.ts'
import type { LayerStore } from './layer-store.ts'
import {
  chooseEntry,
  type Descriptor,
  type ImagePlatform,
  type Manifest,
  parseDocument,
  unusable,
} from './manifest.ts'
import { megabytes, PullProgress } from './pull-progress.ts'
import type { UnpackPool, UnpackProgress } from './unpack-pool.ts'

type PullBounds = { maxImageBytes: number; maxImageEntries: number; ownerShift: number }
type PullParts = {
  store: LayerStore
  pool: UnpackPool
  bounds: PullBounds
  platform: ImagePlatform
  /** Who may reuse the fetched layers: the pull's owner, or anybody. */
  readers: string
}

/** An index may refer to another index; no image in use goes deeper. */
const deepestIndex = 2

/**
 * Closes the source when nobody reads from it any more: another pull may have joined the fetch of a layer.
 */
export async function pullFrom(
  source: ImageSource,
  what: string,
  pinned: string | undefined,
  options: PullOptions,
  parts: PullParts,
): Promise<PulledImage> {
  const layerPull = new LayerPull(source, what, options, parts)
  try {
    return await pullAll(source, what, pinned, options, parts, layerPull)
  } finally {
    void layerPull.finished().then(() => source.close())
  }
}

async function pullAll(
  source: ImageSource,
  what: string,
  pinned: string | undefined,
  { signal }: PullOptions,
  parts: PullParts,
  layerPull: LayerPull,
): Promise<PulledImage> {
  const { manifest, digest } = await findManifest(source, what, pinned, parts.platform, signal)
  const bytes = await fetchConfig(source, what, manifest.config, signal)
  const { config, diffIDs } = parseImageConfig(what, bytes, parts.platform)
  if (diffIDs.length !== manifest.layers.length) {
    throw unusable(
      what,
      `has ${manifest.layers.length} layers, but its configuration names ${diffIDs.length}`,
    )
  }
  assertSize(what, manifest.layers, parts.bounds)
  const release = parts.store.protect(diffIDs)
  try {
    const layers = await layerPull.all(manifest.layers, diffIDs)
    return { digest, layers: stackOf(diffIDs, layers), config }
  } finally {
    release()
  }
}

export async function findManifest(
  source: ImageSource,
  what: string,
  pinned: string | undefined,
  platform: ImagePlatform,
  signal: AbortSignal,
): Promise<{ manifest: Manifest; digest: string }> {
  let digest = pinned
  for (let depth = 0; depth <= deepestIndex; depth++) {
    const { bytes, mediaType } = await fetchDocument(source, what, digest, signal)
    const document = parseDocument(what, bytes, mediaType)
    if (document.kind === 'manifest')
      return { manifest: document.manifest, digest: digest ?? digestOf(bytes) }
    digest = chooseEntry(what, document.entries, platform).digest
  }
  throw unusable(what, 'is an index of indexes of indexes')
}

function assertSize(what: string, layers: readonly Descriptor[], { maxImageBytes }: PullBounds): void {
  const bytes = layers.reduce((sum, { size }) => sum + size, 0)
  if (bytes > maxImageBytes) throw tooLarge(what, maxImageBytes)
}

function tooLarge(what: string, maxImageBytes: number): AppError {
  return new AppError(
    'payload_too_large',
    `${what} is larger than ${megabytes(maxImageBytes)}, which is the limit here.`,
  )
}

function tooMany(what: string, maxImageEntries: number): AppError {
  return new AppError(
    'payload_too_large',
    `${what} holds more than ${maxImageEntries} entries, which is the limit here.`,
  )
}

/** Overlayfs accepts a folder only once: the highest of equal layers covers the others completely. */
function stackOf(diffIDs: readonly string[], layers: readonly LocalLayer[]): string[] {
  const fromTop: string[] = []
  for (let index = diffIDs.length - 1; index >= 0; index--) {
    if (!fromTop.includes(diffIDs[index]!)) fromTop.push(diffIDs[index]!)
    if (layers[index]!.opaqueRoot) break
  }
  return fromTop.reverse()
}

/** Fetches all layers of one image at once; the pool limits how many are really worked on. */
class LayerPull {
  readonly #source: ImageSource
  readonly #what: string
  readonly #options: PullOptions
  readonly #parts: PullParts
  readonly #unpacked = new Map<number, { bytes: number; entries: number }>()
  readonly #failed = new AbortController()
  readonly #fetches = new Set<Promise<unknown>>()

  constructor(source: ImageSource, what: string, options: PullOptions, parts: PullParts) {
    this.#source = source
    this.#what = what
    this.#options = options
    this.#parts = parts
  }

  async all(layers: readonly Descriptor[], diffIDs: readonly string[]): Promise<LocalLayer[]> {
    const progress = new PullProgress(this.#options.onProgress, layers.length)
    const signal = AbortSignal.any([this.#options.signal, this.#failed.signal])
    const pulls = layers.map((layer, index) => this.#one(index, layer, diffIDs[index]!, progress, signal))
    try {
      const stored = await Promise.all(pulls)
      const fetched =
        progress.newLayers === 0 ? 'all present already' : `${megabytes(progress.downloadedBytes)} fetched`
      progress.say(`${layers.length} layers of ${this.#what}: ${fetched}`)
      return stored
    } catch (error) {
      // The other layers are useless now; waits until their fetches have ended.
      this.#failed.abort(error)
      await Promise.allSettled(pulls)
      throw error
    }
  }

  async #one(
    index: number,
    layer: Descriptor,
    diffID: string,
    progress: PullProgress,
    signal: AbortSignal,
  ): Promise<LocalLayer> {
    const lines = progress.layer(index, layer)
    const { store, pool, bounds, readers } = this.#parts
    const here = await store.find(diffID, this.#options.owner)
    if (here) {
      lines.reused()
      this.#count(index, here.bytes)
      return here
    }
    if (store.isBeingFetched(diffID, readers)) lines.waiting()
    const unpack = async (folder: string, shared: AbortSignal) => {
      const { ownerShift, maxImageBytes: maxBytes, maxImageEntries: maxEntries } = bounds
      const job = { folder, digest: layer.digest, diffID, ownerShift, maxEntries, maxBytes }
      const open = () => {
        lines.started()
        return blobBytes(this.#source, layer, shared)
      }
      const onProgress = ({ sentBytes, unpackedBytes, entries }: UnpackProgress) => {
        lines.advanced(sentBytes)
        this.#count(index, unpackedBytes, entries)
      }
      const facts = await pool.unpack(job, open, onProgress, shared)
      this.#count(index, facts.bytes, facts.entries)
      lines.done(facts.devicesLeftOut)
      return facts
    }
    const noted = (folder: string, shared: AbortSignal) => this.#noted(unpack(folder, shared))
    const stored = await store.fetch(diffID, readers, signal, noted)
    this.#count(index, stored.bytes)
    this.#failed.signal.throwIfAborted()
    return stored
  }

  async finished(): Promise<void> {
    await Promise.allSettled(this.#fetches)
  }

  #noted<T>(running: Promise<T>): Promise<T> {
    this.#fetches.add(running)
    return running
  }

  /**
   * The limits apply to the whole image: many layers must not use them fully each. Layers that are on this
   * machine cost no entries.
   */
  #count(index: number, bytes: number, entries = this.#unpacked.get(index)?.entries ?? 0): void {
    this.#unpacked.set(index, { bytes, entries })
    const all = [...this.#unpacked.values()]
    const { maxImageBytes, maxImageEntries } = this.#parts.bounds
    const sum = (of: 'bytes' | 'entries') => all.reduce((total, layer) => total + layer[of], 0)
    if (sum('bytes') > maxImageBytes) this.#failed.abort(tooLarge(this.#what, maxImageBytes))
    if (sum('entries') > maxImageEntries) this.#failed.abort(tooMany(this.#what, maxImageEntries))
  }
}
