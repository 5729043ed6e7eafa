/**
 * The format of several files in one object: their data in separately compressed parts, then an index of the
 * parts, then a trailer of fixed length with the position of the index. Readers begin at the end.
 */
import { hash, webcrypto } from 'node:crypto'
import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompress, zstdDecompressSync } from 'node:zlib'
import type { PackNote } from '../core/ports/object-store.ts'
import { AppError, errorText } from '../lib/app-error.ts'

/** The position of a piece of a file in the object, and the hash of its compressed form. */
export type PackPart = { at: number; bytes: number; packedAt: number; packedBytes: number; sha256: string }
export type PackEntry = { name: string; bytes: number; parts: PackPart[] }
export type PackIndex = { version: 1; note: PackNote; files: PackEntry[] }

/** Bytes of a file in one part. Memory holds a few of these at a time. */
export const partBytes = 2 * 1024 * 1024
const magic = Buffer.from('WARRENP1')
export const trailerBytes = magic.length + 8 + 8 + 32
/** Enough for the index of a terabyte: packed, and as text. */
const largestIndex = 64 * 1024 * 1024
const largestIndexText = 4 * largestIndex
/** How much longer than its bytes zstd makes a part that cannot be compressed. */
const packedOverhead = 64 * 1024
const largestFile = 2 ** 50

const compressed = promisify(zstdCompress)
const decompressed = promisify(zstdDecompress)

/** Speed counts more than size: packs hold mostly memory, and the network is near. */
const quickly = { [constants.ZSTD_c_compressionLevel]: 1 }

/**
 * By default Node returns compressed or decompressed data in pieces of 16 KiB, with a trip through the event
 * loop for each. A chunk size above the total makes it one piece.
 */
const inOnePiece = (bytes: number): { chunkSize: number } => ({ chunkSize: bytes + 1024 })

export const compress = (bytes: Uint8Array): Promise<Buffer> =>
  compressed(bytes, { params: quickly, ...inOnePiece(bytes.length) })

/** Runs on another thread, so that the event loop can answer requests meanwhile. */
export async function hashOf(bytes: Uint8Array): Promise<string> {
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', bytes)).toString('hex')
}

/** Rejects if the content is not bit for bit what was packed. */
export async function unpackPart(packed: Uint8Array, part: PackPart): Promise<Buffer> {
  if ((await hashOf(packed)) !== part.sha256) throw otherHash()
  const bytes = await decompressed(packed, outputOf(part)).catch((cause) => {
    throw damaged(`a part of it cannot be unpacked: ${errorText(cause)}`)
  })
  return ofLength(part, bytes)
}

/** Like `unpackPart`, in the calling thread. */
export function unpackPartNow(packed: Uint8Array, part: PackPart): Buffer {
  if (hash('sha256', packed) !== part.sha256) throw otherHash()
  return ofLength(part, zstdDecompressSync(packed, outputOf(part)))
}

const outputOf = ({ bytes }: PackPart) => ({ maxOutputLength: bytes, ...inOnePiece(bytes) })

function ofLength({ bytes: length }: PackPart, bytes: Buffer): Buffer {
  if (bytes.length !== length) throw damaged('a part of it has another length than its index says')
  return bytes
}

const otherHash = () => damaged('a part of it does not match its checksum')

/** The index and the trailer, for an object whose data ends at this offset, and the checksum of the index. */
export async function packEnd(
  index: PackIndex,
  offset: number,
): Promise<{ bytes: Buffer; checksum: string }> {
  const packed = await compress(Buffer.from(JSON.stringify(index)))
  const trailer = Buffer.alloc(16)
  trailer.writeBigUInt64BE(BigInt(offset), 0)
  trailer.writeBigUInt64BE(BigInt(packed.length), 8)
  const checksum = await hashOf(packed)
  return { bytes: Buffer.concat([packed, magic, trailer, Buffer.from(checksum, 'hex')]), checksum }
}

type IndexLocation = { at: number; bytes: number; sha256: string }

export function readTrailer(end: Uint8Array, size: number): IndexLocation {
  const trailer = Buffer.from(end.subarray(end.length - trailerBytes))
  if (trailer.length !== trailerBytes || !trailer.subarray(0, magic.length).equals(magic)) {
    throw damaged('it does not end as a pack of this version of Warren does')
  }
  const at = Number(trailer.readBigUInt64BE(magic.length))
  const bytes = Number(trailer.readBigUInt64BE(magic.length + 8))
  if (at + bytes !== size - trailerBytes || bytes > largestIndex)
    throw damaged('its index is not where it should be')
  return { at, bytes, sha256: trailer.subarray(magic.length + 16).toString('hex') }
}

export async function readIndex(
  packed: Uint8Array,
  { sha256, at: dataEnd }: IndexLocation,
): Promise<PackIndex> {
  if ((await hashOf(packed)) !== sha256) throw damaged('its index does not match its checksum')
  const text = await decompressed(packed, { maxOutputLength: largestIndexText }).catch((cause) => {
    throw damaged(`its index cannot be unpacked: ${errorText(cause)}`)
  })
  const index = parsed(text.toString())
  if (index?.version !== 1) throw damaged(`its format ${index?.version} is of another version of Warren`)
  const names = new Set<string>()
  if (!Array.isArray(index.files)) throw damaged('its index lists no files')
  for (const entry of index.files) {
    checkEntry(entry, dataEnd)
    if (names.has(entry.name)) throw damaged('it has a file twice')
    names.add(entry.name)
  }
  return index
}

function parsed(text: string): PackIndex | null {
  try {
    return JSON.parse(text) as PackIndex | null
  } catch {
    throw damaged('its index is no JSON')
  }
}

/**
 * Everything that is later used as a position, a length or a name. Whoever can write to the object store writes checksums
 * that match.
 */
function checkEntry(entry: PackEntry | null, dataEnd: number): asserts entry is PackEntry {
  if (!isPlainName(entry?.name)) throw damaged('a file of it has a name that leads elsewhere')
  const { bytes, parts } = entry!
  if (!isCount(bytes, largestFile) || !Array.isArray(parts)) throw damaged('a file of it has no length')
  let end = 0
  for (const part of parts as (PackPart | null)[]) {
    const { at, bytes: length, packedAt, packedBytes, sha256 } = part ?? ({} as Partial<PackPart>)
    const isInFile = isCount(at, bytes) && isCount(length, partBytes) && at >= end && at + length <= bytes
    const isInPack =
      isCount(packedAt, dataEnd) &&
      isCount(packedBytes, partBytes + packedOverhead) &&
      packedAt + packedBytes <= dataEnd
    const hasHash = typeof sha256 === 'string' && /^[0-9a-f]{64}$/.test(sha256)
    if (!isInFile || !isInPack || !hasHash || length === 0) {
      throw damaged('a part of it lies outside of its file or of the pack')
    }
    end = at + length
  }
}

const isCount = (value: unknown, max: number): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= max

/** A path below a folder: no way up, no way round, nothing that ends a name early. */
const isPlainName = (name: unknown): name is string =>
  typeof name === 'string' &&
  name.length <= 255 &&
  name.split('/').every((word) => word !== '' && word !== '.' && word !== '..' && !word.includes('\0'))

export const damaged = (why: string): AppError =>
  new AppError('internal', "An object in the object store is damaged; the server's log says how.", {
    cause: new Error(`a pack in the object store is damaged: ${why}`),
  })
