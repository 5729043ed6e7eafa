/** The images port: container images as layers on this machine's disk. Knows no template, team or build. */

export type RegistryCredentials =
  | { type: 'registry'; username: string; password: string }
  | { type: 'aws'; accessKeyID: string; secretAccessKey: string; region: string }
  | { type: 'gcp'; serviceAccountJSON: string }

export type ImageConfig = {
  env: Record<string, string>
  /** The user of the image: a name or a number, with or without a group. Empty: root. */
  user: string
  /** Empty: the root folder. */
  workdir: string
}

export type PulledImage = {
  /** The digest of the manifest for this platform. Equal digests are byte-identical images. */
  digest: string
  /** Digests of the unpacked layers, lowest first. */
  layers: string[]
  config: ImageConfig
}

export type PullOptions = {
  /**
   * The team that asks. A layer that was fetched with one team's credentials is not given to another that
   * merely names it.
   */
  owner: string
  credentials?: RegistryCredentials
  /** Receives lines for the build log, never with a credential in them. */
  onProgress: (line: string) => void
  signal: AbortSignal
}

/** Layers in use, by digest or by folder. */
export type UsedLayers = { layers: Iterable<string>; folders: Iterable<string> }

/** Number of removed things, and the disk space that was freed. */
export type Freed = { count: number; bytes: number }

export interface Images {
  /**
   * Resolves a name such as `debian:12`, `ghcr.io/a/b@sha256:…` or `localhost:5000/x` and fetches every
   * missing layer. Each layer is verified, and exists completely or not at all. Concurrent callers share the
   * fetch of a layer.
   */
  pull(reference: string, options: PullOptions): Promise<PulledImage>
  /** Asks the registry for the digest of an image, without credentials. */
  digestOf(reference: string): Promise<string>
  /**
   * Returns the folders of the unpacked layers, in the given order. Throws `not_found` for a layer that is
   * not on this machine.
   */
  layerFolders(layers: readonly string[]): string[]
  /** Protects the layers from pruning until the returned function is called. */
  protect(layers: readonly string[]): () => void
  /** Returns those layers that are not on this machine. */
  missing(layers: readonly string[]): string[]
  /** Removes layers that `used` does not name, that nobody holds, and that nobody asked for recently. */
  prune(used: UsedLayers, options: { dryRun: boolean }): Promise<Freed>
}

/** Stores layers in the object store for all machines. */
export interface RemoteLayers {
  /**
   * The names by which all machines know these layers. A root that was made on this machine before it had an object store is named
   * after its recipe, and other machines may have other files under that name: it gets a further name here, after its bytes.
   */
  sharedNames(layers: readonly string[]): Promise<string[]>
  /** Uploads the layers that the object store lacks, by their shared names. */
  store(layers: readonly string[], signal: AbortSignal): Promise<void>
  /** Fetches the layers that are not on this machine. Concurrent callers share the fetch of a layer. */
  fetch(layers: readonly string[], signal: AbortSignal): Promise<void>
}
