/** Writes files as the byte stream of a pack: skips holes, and compresses a few parts at once. */
import { open } from 'node:fs/promises'
import type { PackedFile, PackNote } from '../core/ports/object-store.ts'
import { compress, hashOf, type PackEntry, packEnd, partBytes } from './pack-format.ts'
import { dataRanges } from './sparse-file.ts'

/** One part before its compression, with its position in the file. */
type RawPart = { at: number; bytes: Buffer }
type CompressedPart = { at: number; bytes: number; sha256: string; packed: Buffer }

/** Few, because the threads that compress also read files for everybody else. */
const partsAtOnce = 2
const zeros = Buffer.alloc(partBytes)

export async function* writePack(
  files: readonly PackedFile[],
  note: PackNote,
  onChecksum: (ofIndex: string) => void,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let offset = 0
  const entries: PackEntry[] = []
  for (const file of files) {
    const entry: PackEntry = { name: file.name, bytes: 0, parts: [] }
    entries.push(entry)
    const source = 'path' in file ? readFileParts(file.path, entry) : cutParts(file.content, entry)
    for await (const { packed, ...part } of compressAhead(source)) {
      signal?.throwIfAborted()
      entry.parts.push({ ...part, packedAt: offset, packedBytes: packed.length })
      offset += packed.length
      yield packed
    }
  }
  const { bytes, checksum } = await packEnd({ version: 1, note, files: entries }, offset)
  onChecksum(checksum)
  yield bytes
}

async function* readFileParts(path: string, entry: PackEntry): AsyncGenerator<RawPart> {
  await using file = await open(path)
  const { size } = await file.stat()
  entry.bytes = size
  for (const { start, end } of dataRanges(file.fd, size)) {
    for (let at = start; at < end; ) {
      // Parts end at multiples of their size, so that close ranges share no part.
      const length = Math.min(end, (Math.floor(at / partBytes) + 1) * partBytes) - at
      const bytes = Buffer.allocUnsafe(length)
      const { bytesRead } = await file.read(bytes, 0, length, at)
      if (bytesRead !== length) throw new Error(`${path} became shorter while it was packed`)
      if (!isZero(bytes)) yield { at, bytes }
      at += length
    }
  }
}

async function* cutParts(content: AsyncIterable<Uint8Array>, entry: PackEntry): AsyncGenerator<RawPart> {
  let waiting: Uint8Array[] = []
  let length = 0
  const cut = (): RawPart => {
    const bytes = Buffer.concat(waiting)
    const part = { at: entry.bytes, bytes }
    entry.bytes += bytes.length
    waiting = []
    length = 0
    return part
  }
  for await (let chunk of content) {
    while (length + chunk.length >= partBytes) {
      const used = partBytes - length
      waiting.push(chunk.subarray(0, used))
      chunk = chunk.subarray(used)
      length = partBytes
      yield cut()
    }
    // A copy, because the producer may reuse the memory.
    if (chunk.length > 0) waiting.push(Buffer.from(chunk))
    length += chunk.length
  }
  if (length > 0) yield cut()
}

/** Yields the parts in the order of the source. */
async function* compressAhead(source: AsyncIterable<RawPart>): AsyncGenerator<CompressedPart> {
  const ahead: Promise<CompressedPart>[] = []
  try {
    for await (const part of source) {
      ahead.push(compressPart(part))
      if (ahead.length >= partsAtOnce) yield await ahead.shift()!
    }
    while (ahead.length > 0) yield await ahead.shift()!
  } finally {
    await Promise.allSettled(ahead)
  }
}

async function compressPart({ at, bytes }: RawPart): Promise<CompressedPart> {
  const packed = await compress(bytes)
  return { at, bytes: bytes.length, sha256: await hashOf(packed), packed }
}

const isZero = (bytes: Buffer): boolean => zeros.compare(bytes, 0, bytes.length, 0, bytes.length) === 0
