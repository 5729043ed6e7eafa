/** Writes parts of a pack from the object store into a file. */
import type { ObjectKey, ObjectStore } from '../core/ports/object-store.ts'
import { writeAll } from '../lib/write-all.ts'
import { type PackPart, unpackPart } from './pack-format.ts'

/** Adjacent parts, which one request reads. */
export type PackRange = { start: number; length: number; parts: readonly PackPart[] }

export interface PartWriter {
  /**
   * Verifies each part and writes it to its position in an open file. While the promise is pending, the file must stay
   * open; this holds after an abort too.
   */
  write(key: ObjectKey, range: PackRange, fd: number, signal: AbortSignal): Promise<void>
}

/** In the calling thread. */
export const plainWriter = (store: Pick<ObjectStore, 'read'>): PartWriter => ({
  async write(key, range, fd, signal) {
    const packed = await store.read(key, range.start, range.length, signal)
    for (const part of range.parts) writeAll(fd, await unpackPart(cutOut(packed, range, part), part), part.at)
  },
})

export const cutOut = (packed: Uint8Array, { start }: PackRange, part: PackPart): Uint8Array =>
  packed.subarray(part.packedAt - start, part.packedAt - start + part.packedBytes)
