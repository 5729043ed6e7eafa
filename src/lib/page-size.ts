/** The size of a page of memory, which is 4, 16 or 64 kB on arm64. */
import { readFileSync } from 'node:fs'

/** AT_PAGESZ of the auxiliary vector. */
const pageSizeEntry = 6n

/** `vector` is /proc/self/auxv: pairs of 64-bit numbers. */
export function pageBytes(vector: Buffer = readFileSync('/proc/self/auxv')): number {
  for (let at = 0; at + 16 <= vector.length; at += 16) {
    if (vector.readBigUInt64LE(at) === pageSizeEntry) return Number(vector.readBigUInt64LE(at + 8))
  }
  return 4096
}
