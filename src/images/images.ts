/**
 * Container images on this machine: fetched from registries or from a folder, verified, and unpacked once
 * into layers that overlayfs can stack. Knows no template and no team; trusts neither registry nor archive.
 */
import { lookup } from 'node:dns/promises'
import type { SecureContext } from 'node:tls'
import type {
  Freed,
  Images,
  PulledImage,
  PullOptions,
  RemoteLayers,
  UsedLayers,
} from '../core/ports/images.ts'
import type { PackStore } from '../core/ports/object-store.ts'
import { AppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { systemClock } from '../lib/clock.ts'
import { deadlineSignal } from '../lib/deadline.ts'
import { type Log, silentLog } from '../lib/log.ts'
import { runCommand } from '../lib/run-command.ts'
import { Addresses, type Lookup } from './address-policy.ts'
import { awsEndpoint, loginOf } from './credentials.ts'
import { digestOf } from './digest.ts'
import { HttpClient, trustedCertificates } from './http-client.ts'
import type { ImageSource } from './image-source.ts'
import { anybody } from './layer-readers.ts'
import { LayerStore } from './layer-store.ts'
import { type ImagePlatform, thisPlatform } from './manifest.ts'
import { type ImageLocation, locationOf, type Mirrors, parseMirrors } from './mirrors.ts'
import { openLayout } from './oci-layout.ts'
import { findManifest, pullFrom } from './pull.ts'
import { formatReference, parseReference } from './reference.ts'
import { RegistryClient } from './registry-client.ts'
import { nameByBytes, PackedLayers } from './remote-layers.ts'
import { UnpackPool } from './unpack-pool.ts'

export type ImagesOptions = {
  /** The folder of the layers; nobody else writes to it. */
  folder: string
  /** Added to every owner ID; the root user of a sandbox has this ID on the host. */
  ownerShift: number
  /**
   * Maps a name or its prefixes (`docker.io/library/debian`, `docker.io`, `*`) to
   * `[user:password@]host/prefix` or `folder:/path`.
   */
  mirrors?: Readonly<Record<string, string>>
  /** Hosts, host:port or `*`, that may have addresses of internal networks. */
  allowPrivateRegistries?: readonly string[]
  /** Hosts or host:port that are contacted without TLS. */
  insecureRegistries?: readonly string[]
  /** Certificate authorities to trust besides the machine's, as PEM. */
  certificateAuthorities?: readonly string[]
  /** Maximum unpacked size of one image. */
  maxImageBytes?: number
  /** Maximum number of files, folders and links in all layers of one image. */
  maxImageEntries?: number
  /** Number of layers to fetch and unpack at once. */
  parallelLayers?: number
  /** A layer that was asked for within this time is never pruned: the caller may not hold it yet. */
  keepUnusedMs?: number
  /** A request to a registry that is silent for this long is retried or fails. */
  silenceMs?: number
  platform?: ImagePlatform
  clock?: Clock
  log?: Log
  lookup?: Lookup
  ecrEndpoint?: (region: string) => string
  /** The store in which layers are shared with other machines. */
  packs?: PackStore
}

export interface ClosableImages extends Images {
  /** Undefined without an object store. */
  readonly remoteLayers: RemoteLayers | undefined
  /**
   * Makes a root that is on this machine without an image a layer. The name must always mean the same files
   * here. With an object store the layer is named after its bytes, because another machine may have made
   * others under the same name.
   */
  adopt(name: string, rootFolder: string): Promise<string>
  close(): Promise<void>
}

/** A create waits for the digest of its image. */
const digestWithinMs = 20_000
const registryIsSlow = () =>
  new AppError('unavailable', 'The registry of the image does not answer in time; try again in a moment.')

export async function createImages(options: ImagesOptions): Promise<ClosableImages> {
  const mirrors = parseMirrors(options.mirrors ?? {})
  const store = await LayerStore.open({
    folder: options.folder,
    ownerShift: options.ownerShift,
    keepUnusedMs: options.keepUnusedMs ?? 15_000,
    clock: options.clock ?? systemClock,
    log: options.log ?? silentLog,
    sync: async (folder) => void (await runCommand('sync', ['--file-system', folder])),
  })
  return new LocalImages(options, mirrors, store)
}

class LocalImages implements ClosableImages {
  readonly #options: ImagesOptions
  readonly #mirrors: Mirrors
  readonly #store: LayerStore
  readonly #pool: UnpackPool
  readonly remoteLayers: RemoteLayers | undefined
  readonly #closing = new AbortController()
  #trusted: SecureContext | undefined
  #syncing: Promise<void> = Promise.resolve()

  constructor(options: ImagesOptions, mirrors: Mirrors, store: LayerStore) {
    this.#options = options
    this.#mirrors = mirrors
    this.#store = store
    this.#pool = new UnpackPool(options.parallelLayers ?? 3)
    const { packs, ownerShift } = options
    this.remoteLayers = packs && new PackedLayers({ store, packs, ownerShift })
  }

  async pull(text: string, options: PullOptions): Promise<PulledImage> {
    const reference = parseReference(text)
    const location = locationOf(reference, this.#mirrors)
    const signal = AbortSignal.any([options.signal, this.#closing.signal])
    const source = await this.#open(location, options, signal)
    const {
      ownerShift,
      maxImageBytes = 32 * 2 ** 30,
      maxImageEntries = 2_000_000,
      platform = thisPlatform(),
    } = this.#options
    try {
      return await pullFrom(
        source,
        formatReference(reference),
        reference.digest,
        { ...options, signal },
        {
          store: this.#store,
          pool: this.#pool,
          bounds: { ownerShift, maxImageBytes, maxImageEntries },
          platform,
          // Layers that are fetched without a team's credentials are the same for every team.
          readers: usesCredentials(location, options) ? options.owner : anybody,
        },
      )
    } finally {
      this.#syncing = this.#syncing.then(() => this.#store.sync()).catch(this.#notSynced)
    }
  }

  async digestOf(text: string): Promise<string> {
    const reference = parseReference(text)
    if (reference.digest !== undefined) return reference.digest
    const { clock = systemClock, platform = thisPlatform() } = this.#options
    const deadline = deadlineSignal(clock, digestWithinMs, registryIsSlow)
    const signal = AbortSignal.any([this.#closing.signal, deadline.signal])
    const source = await this.#open(locationOf(reference, this.#mirrors), {}, signal)
    try {
      return (await findManifest(source, formatReference(reference), undefined, platform, signal)).digest
    } finally {
      deadline.cancel()
      source.close()
    }
  }

  readonly #notSynced = (err: unknown): void => {
    const { log = silentLog } = this.#options
    log.warn({ err }, 'new layers may not have reached the disk; the next pull tries again')
  }

  async adopt(name: string, rootFolder: string): Promise<string> {
    const layer = this.remoteLayers
      ? await nameByBytes(rootFolder)
      : digestOf(Buffer.from(`a root of this machine: ${name}`))
    await this.#store.adopt(layer, rootFolder)
    return layer
  }

  layerFolders(layers: readonly string[]): string[] {
    return layers.map((layer) => this.#store.folderOf(layer))
  }

  protect(layers: readonly string[]): () => void {
    return this.#store.protect(layers)
  }

  missing(layers: readonly string[]): string[] {
    return layers.filter((layer) => !this.#store.has(layer))
  }

  prune(used: UsedLayers, { dryRun }: { dryRun: boolean }): Promise<Freed> {
    return this.#store.prune(used, dryRun)
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('closing'))
    await this.#store.fetchesFinished()
    await this.#pool.close()
    await this.#syncing
  }

  async #open(
    location: ImageLocation,
    options: Pick<PullOptions, 'credentials'>,
    signal: AbortSignal,
  ): Promise<ImageSource> {
    if (location.kind === 'folder') return openLayout(location.folder, location.names)
    const http = this.#httpFor(location)
    try {
      const { clock = systemClock, ecrEndpoint = awsEndpoint } = this.#options
      const given = usesCredentials(location, options) ? options.credentials : undefined
      const login = given ? await loginOf(given, { http, clock, ecrEndpoint, signal }) : location.login
      const asker = { isMirror: location.mirrored, ...(login && { login }) }
      return new RegistryClient(http, location.reference, asker, signal)
    } catch (error) {
      http.close()
      throw error
    }
  }

  #httpFor(location: Extract<ImageLocation, { kind: 'registry' }>): HttpClient {
    const { allowPrivateRegistries = [], insecureRegistries = [], silenceMs = 30_000 } = this.#options
    this.#trusted ??= trustedCertificates(this.#options.certificateAuthorities ?? [])
    const addresses = new Addresses({
      // An operator who sets a mirror thereby allows its address.
      allowPrivate: [...allowPrivateRegistries, ...(location.mirrored ? [location.reference.registry] : [])],
      insecure: insecureRegistries,
      lookup: this.#options.lookup ?? ((host) => lookup(host, { all: true })),
    })
    return new HttpClient(addresses, silenceMs, this.#trusted)
  }
}

/** A password for the registry that the user named must not be sent to the operator's mirror. */
function usesCredentials(
  location: ImageLocation,
  { credentials }: Pick<PullOptions, 'credentials'>,
): boolean {
  return credentials !== undefined && location.kind === 'registry' && !location.mirrored
}
