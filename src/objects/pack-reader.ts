/** Fetches a pack: many ranges of the object at once. Each part is verified before it is used. */
import { constants, type FileHandle, open } from 'node:fs/promises'
import type { ObjectEnd, ObjectKey, ObjectStore, OpenedPack, PackTarget } from '../core/ports/object-store.ts'
import {
  damaged,
  type PackEntry,
  type PackIndex,
  type PackPart,
  readIndex,
  readTrailer,
  trailerBytes,
  unpackPart,
} from './pack-format.ts'
import { cutOut, type PackRange, type PartWriter, plainWriter } from './part-writer.ts'

/** Size of one request, and number of requests under way at once. */
const rangeBytes = 4 * 1024 * 1024
const rangesAtOnce = 8
/** One request reads the index, which is shorter for a pack of a gigabyte, and in most packs all but the memory. */
const endBytes = 1024 * 1024

const never = new AbortController().signal

type PackSource = { store: Pick<ObjectStore, 'read'>; writer: PartWriter }
type Reader = PackSource & { key: ObjectKey; signal: AbortSignal }

/** Undefined if it is certain that there is no such object. */
export async function openPack(
  source: PackSource & { store: ObjectStore },
  key: ObjectKey,
  signal: AbortSignal = never,
): Promise<OpenedPack | undefined> {
  const { store, writer } = source
  const end = await store.readEnd(key, endBytes, signal)
  if (!end) return undefined
  const { note, files, checksum } = await fetchIndex({ ...source, key, signal }, end)
  let near: PackSource | undefined = nearSource(source, end)
  return {
    note,
    checksum,
    async fetch(target, signal = never) {
      const from = near ?? source
      // Its bytes are not kept for as long as the pack.
      near = undefined
      await fetchFiles({ ...from, key, signal }, files, target)
    },
    partsOf(name) {
      const entry = files.find((file) => file.name === name)
      if (!entry) return undefined
      const { parts } = entry
      const read = async (index: number, signal: AbortSignal) => {
        const part = parts[index]!
        return unpackPart(await store.read(key, part.packedAt, part.packedBytes, signal), part)
      }
      const write = (index: number, fd: number, signal: AbortSignal) => {
        const part = parts[index]!
        const range = { start: part.packedAt, length: part.packedBytes, parts: [part] }
        return writer.write(key, range, fd, signal)
      }
      return { parts, read, write }
    },
  }
}

/** Files of one part are fetched together; larger ones follow one by one, because each has many parts under way. */
async function fetchFiles(reader: Reader, files: readonly PackEntry[], target: PackTarget): Promise<void> {
  const failed = new AbortController()
  const signal = AbortSignal.any([failed.signal, reader.signal])
  const fetch = (entry: PackEntry) => fetchFile({ ...reader, signal }, entry, target)
  const small = files.filter(({ parts }) => parts.length <= 1).map(fetch)
  try {
    await Promise.all(small)
    for (const entry of files) if (entry.parts.length > 1) await fetch(entry)
  } finally {
    failed.abort()
    await Promise.allSettled(small)
  }
}

/** Takes what lies in the end of the pack from there. */
function nearSource({ store, writer }: PackSource, { bytes, size }: ObjectEnd): PackSource {
  const start = size - bytes.length
  const near: PackSource['store'] = {
    async read(key, from, length, signal) {
      if (from < start) return store.read(key, from, length, signal)
      return bytes.subarray(from - start, from - start + length)
    },
  }
  const nearWriter = plainWriter(near)
  return {
    store: near,
    writer: {
      write: (key, range, fd, signal) =>
        (range.start < start ? writer : nearWriter).write(key, range, fd, signal),
    },
  }
}

async function fetchIndex(
  { store, key, signal }: Reader,
  { bytes: end, size }: ObjectEnd,
): Promise<PackIndex & { checksum: string }> {
  if (size < trailerBytes) throw damaged('it is too short')
  const trailer = readTrailer(end, size)
  const missing = trailer.bytes + trailerBytes - end.length
  const packed =
    missing <= 0
      ? end.subarray(-missing, -missing + trailer.bytes)
      : await store.read(key, trailer.at, trailer.bytes, signal)
  return { ...(await readIndex(packed, trailer)), checksum: trailer.sha256 }
}

async function fetchFile(reader: Reader, entry: PackEntry, target: PackTarget): Promise<void> {
  const write = target.open(entry.name, entry.bytes)
  if (write === undefined) return
  if (typeof write === 'function') return write(inOrder(reader, rangesOf(entry.parts)))
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL
  await using file = await open(write, flags, 0o600)
  await file.truncate(entry.bytes)
  await fillFile(reader, entry, file)
  if (!target.isTemporary) await file.datasync()
}

async function fillFile(
  { writer, key, signal }: Reader,
  { parts }: PackEntry,
  { fd }: FileHandle,
): Promise<void> {
  const ranges = rangesOf(parts).values()
  const fetchNext = async () => {
    for (const range of ranges) await writer.write(key, range, fd, signal)
  }
  const fetching = Array.from({ length: rangesAtOnce }, fetchNext)
  try {
    await Promise.all(fetching)
  } catch (error) {
    // The others must not write to a closed file.
    for (const _ of ranges);
    await Promise.allSettled(fetching)
    throw error
  }
}

async function* inOrder(reader: Reader, ranges: PackRange[]): AsyncGenerator<Uint8Array> {
  const ahead: { range: PackRange; packed: Promise<Uint8Array> }[] = []
  let next = 0
  try {
    for (;;) {
      while (next < ranges.length && ahead.length < rangesAtOnce) {
        const range = ranges[next++]!
        const packed = fetchRange(reader, range)
        // The caller that awaits it sees the failure.
        packed.catch(() => {})
        ahead.push({ range, packed })
      }
      const first = ahead.shift()
      if (!first) return
      const packed = await first.packed
      for (const part of first.range.parts) yield await unpackPart(cutOut(packed, first.range, part), part)
    }
  } finally {
    await Promise.allSettled(ahead.map(({ packed }) => packed))
  }
}

const fetchRange = ({ store, key, signal }: Reader, { start, length }: PackRange): Promise<Uint8Array> => {
  signal.throwIfAborted()
  return store.read(key, start, length, signal)
}

/** Adjacent parts are fetched together. */
function rangesOf(parts: readonly PackPart[]): PackRange[] {
  const ranges: (PackRange & { parts: PackPart[] })[] = []
  for (const part of parts) {
    const last = ranges.at(-1)
    if (last && last.start + last.length === part.packedAt && last.length + part.packedBytes <= rangeBytes) {
      last.length += part.packedBytes
      last.parts.push(part)
    } else ranges.push({ start: part.packedAt, length: part.packedBytes, parts: [part] })
  }
  return ranges
}
