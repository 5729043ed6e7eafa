/**
 * Finds the ranges of a file that have data. The rest are holes, which read as zeros and take no disk space.
 */
import type { CFunction } from '../lib/c-library.ts'
import { openNativeLibc } from '../lib/native.ts'

type DataRange = { start: number; end: number }

const seekData = 3
const seekHole = 4
const endOfData = 'ENXIO'

let seek: CFunction | undefined

/** Yields the ranges in order. Moves the offset of the descriptor, so read by position. */
export function* dataRanges(fd: number, size: number): Generator<DataRange> {
  for (let at = 0; at < size; ) {
    const start = lseek(fd, at, seekData)
    if (start === undefined) return
    const end = Math.min(size, lseek(fd, start, seekHole) ?? size)
    yield { start, end }
    at = end
  }
}

/** Undefined if there is no data from there on. */
function lseek(fd: number, offset: number, whence: number): number | undefined {
  const libc = openNativeLibc('Snapshots cannot be packed')
  seek ??= libc.func('int64_t lseek(int fd, int64_t offset, int whence)')
  const found = Number(seek(fd, offset, whence))
  if (found >= 0) return found
  const failure = libc.failure('find the data of a file')
  if (failure.code === endOfData) return undefined
  throw failure
}
