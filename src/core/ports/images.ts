/** The images port: container images as layers on this machine's disk. Knows no template, no team and no build. */

export type RegistryCredentials =
  | { type: 'registry'; username: string; password: string }
  | { type: 'aws'; accessKeyID: string; secretAccessKey: string; region: string }
  | { type: 'gcp'; serviceAccountJSON: string }

export type ImageConfig = {
  env: Record<string, string>
  /** As the image says it: a name or a number, with or without a group. Empty: root. */
  user: string
  /** Empty: the root folder. */
  workdir: string
}

export type PulledImage = {
  /** The digest of the manifest for this platform: equal digests are equal images, to the byte. */
  digest: string
  /** Digests of the unpacked layers, lowest first. */
  layers: string[]
  config: ImageConfig
}

export type PullOptions = {
  /** Who asks: a layer that took somebody's credentials to fetch is not reused for others on their word alone. */
  owner: string
  credentials?: RegistryCredentials
  /** Lines for the build log; never with a credential in them. */
  onProgress: (line: string) => void
  signal: AbortSignal
}

/** By digest, or by where they lie. */
export type UsedLayers = { layers: Iterable<string>; folders: Iterable<string> }

/** How many things were removed, and the disk space that this gave back. */
export type Freed = { count: number; bytes: number }

export interface Images {
  /**
   * Resolves a name such as `debian:12`, `ghcr.io/a/b@sha256:…` or `localhost:5000/x` and brings every layer that
   * is missing to this machine, each verified and whole or not there. Callers that need the same layer share it.
   */
  pull(reference: string, options: PullOptions): Promise<PulledImage>
  /** Where the unpacked layers lie, in the order given. Throws `not_found` for one that is not here. */
  layerFolders(layers: readonly string[]): string[]
  /** Keeps them from being pruned until the returned function is called. */
  hold(layers: readonly string[]): () => void
  /** Those of them that are not on this machine. */
  missing(layers: readonly string[]): string[]
  /** Removes the layers that nothing of `used` needs, nobody holds, and nobody asked for a moment ago. */
  prune(used: UsedLayers, options: { dryRun: boolean }): Promise<Freed>
}

/** Layers in the object store, for all machines. */
export interface LayerArchive {
  /** Puts those of them there that are not. Rejects with `unprocessable` for one that is good on this machine alone. */
  archive(layers: readonly string[], signal: AbortSignal): Promise<void>
  /** Fetches those that are not on this machine; callers that need the same one share it. */
  bring(layers: readonly string[], signal: AbortSignal): Promise<void>
}
