/** Parses manifests and indexes of images, and chooses among several platforms. */
import { AppError } from '../lib/app-error.ts'
import { isDigest } from './digest.ts'

export type Descriptor = { mediaType: string; digest: string; size: number }
export type Manifest = { config: Descriptor; layers: Descriptor[] }
export type IndexEntry = Descriptor & { platform?: ImagePlatform; annotations: Record<string, string> }
export type ImagePlatform = { os: string; architecture: string; variant?: string }
type ImageDocument = { kind: 'manifest'; manifest: Manifest } | { kind: 'index'; entries: IndexEntry[] }

const manifestTypes = [
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.v2+json',
]
const indexTypes = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
]
const configTypes = [
  'application/vnd.oci.image.config.v1+json',
  'application/vnd.docker.container.image.v1+json',
]
const layerType =
  /^application\/vnd\.(?:oci\.image\.layer\.v1\.tar(?:\+gzip|\+zstd)?|docker\.image\.rootfs\.diff\.tar(?:\.gzip|\.zstd)?)$/
export const acceptedTypes = [...manifestTypes, ...indexTypes].join(', ')

/** Each layer is a folder in one mount, which the kernel limits. */
const maxLayers = 127
const maxIndexEntries = 1000

export function parseDocument(what: string, bytes: Uint8Array, contentType: string): ImageDocument {
  const json = parseJSON(what, bytes)
  const mediaType = typeof json.mediaType === 'string' ? json.mediaType : contentType.split(';')[0]!.trim()
  if (json.schemaVersion === 1 || /docker\.distribution\.manifest\.v1\+/.test(mediaType)) {
    throw unusable(
      what,
      'is in the format of 2015 (schema 1), which has no verifiable layers. Push it again with a present tool',
    )
  }
  // A document that two readers could take for different images is rejected.
  if ('manifests' in json && 'layers' in json)
    throw unusable(what, 'says that it is an image and a list of images at once')
  if (indexTypes.includes(mediaType) || ('manifests' in json && !manifestTypes.includes(mediaType))) {
    return { kind: 'index', entries: parseIndex(what, json) }
  }
  if (!manifestTypes.includes(mediaType) && !('layers' in json)) {
    throw unusable(what, `is of the type ${JSON.stringify(mediaType.slice(0, 100))}, which is not an image`)
  }
  return { kind: 'manifest', manifest: parseManifest(what, json) }
}

function parseManifest(what: string, json: Record<string, unknown>): Manifest {
  const config = parseDescriptor(what, json.config)
  if (!configTypes.includes(config.mediaType)) {
    throw unusable(
      what,
      `holds ${JSON.stringify(config.mediaType.slice(0, 100))} instead of a container image`,
    )
  }
  const given = Array.isArray(json.layers) ? json.layers : []
  if (given.length > maxLayers) {
    throw unusable(what, `has ${given.length} layers; ${maxLayers} can be stacked. Squash it`)
  }
  return { config, layers: given.map((layer) => parseLayer(what, layer)) }
}

function parseLayer(what: string, given: unknown): Descriptor {
  const { urls } = (given ?? {}) as { urls?: unknown }
  const layer = parseDescriptor(what, given)
  if ((Array.isArray(urls) && urls.length > 0) || /foreign|nondistributable/.test(layer.mediaType)) {
    throw unusable(
      what,
      'has a layer that lies outside its registry (a foreign layer), which is never fetched',
    )
  }
  if (!layerType.test(layer.mediaType)) {
    throw unusable(
      what,
      `has a layer of the type ${JSON.stringify(layer.mediaType.slice(0, 100))}, which cannot be unpacked`,
    )
  }
  return layer
}

export function parseIndex(what: string, json: Record<string, unknown>): IndexEntry[] {
  const entries = Array.isArray(json.manifests) ? json.manifests : []
  if (entries.length > maxIndexEntries) throw unusable(what, `lists ${entries.length} images`)
  return entries.map((given: { platform?: ImagePlatform; annotations?: Record<string, string> }) => ({
    ...parseDescriptor(what, given),
    ...(given.platform && { platform: given.platform }),
    annotations: given.annotations ?? {},
  }))
}

function parseDescriptor(what: string, given: unknown): Descriptor {
  const { mediaType, digest, size } = (given ?? {}) as Partial<Record<keyof Descriptor, unknown>>
  if (typeof mediaType !== 'string' || !isDigest(digest) || !Number.isSafeInteger(size) || Number(size) < 0) {
    throw unusable(what, 'names a part without type, digest or size')
  }
  return { mediaType, digest, size: Number(size) }
}

export function thisPlatform(): ImagePlatform {
  return { os: 'linux', architecture: process.arch === 'x64' ? 'amd64' : process.arch }
}

export function chooseEntry(what: string, entries: readonly IndexEntry[], wanted: ImagePlatform): IndexEntry {
  const fitting = entries.filter(({ platform }) => platform && fits(platform, wanted))
  // The plainest variant runs on every machine of the architecture.
  const plain = fitting.find(({ platform }) => !platform?.variant || platform.variant === 'v8') ?? fitting[0]
  if (plain) return plain
  const [only] = entries
  if (entries.length === 1 && only && !only.platform) return only
  const offered = entries.map(({ platform }) => (platform ? platformText(platform) : 'unknown'))
  const known = [...new Set(offered)].filter((text) => !text.startsWith('unknown'))
  throw unusable(
    what,
    `is not made for ${platformText(wanted)}; it is made for: ${known.join(', ').slice(0, 300) || 'nothing'}`,
  )
}

/** Rejected here with a clear reason; a program for another machine would only fail to start. */
export function assertPlatform(what: string, config: Partial<ImagePlatform>, wanted: ImagePlatform): void {
  const { os = wanted.os, architecture = wanted.architecture } = config
  if (!fits({ os, architecture }, wanted)) {
    throw unusable(
      what,
      `is made for ${platformText({ os, architecture })}, and this machine is ${platformText(wanted)}`,
    )
  }
}

function fits(platform: ImagePlatform, wanted: ImagePlatform): boolean {
  const { os = wanted.os, architecture = '' } = platform
  return os === wanted.os && architecture === wanted.architecture
}

const platformText = ({ os, architecture, variant }: ImagePlatform): string =>
  [os, architecture, variant].filter(Boolean).join('/').slice(0, 60)

export function parseJSON(what: string, bytes: Uint8Array): Record<string, unknown> {
  try {
    const json: unknown = JSON.parse(Buffer.from(bytes).toString('utf8'))
    if (typeof json === 'object' && json !== null && !Array.isArray(json))
      return json as Record<string, unknown>
  } catch {}
  throw unusable(what, 'is described by something that is not JSON')
}

export function unusable(what: string, why: string): AppError {
  return new AppError('unprocessable', `${what} ${why}.`)
}
