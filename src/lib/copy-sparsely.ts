/** Copies a large sparse file, such as an empty disk, by system calls and without a program. */
import { closeSync, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs'
import type { CFunction } from './c-library.ts'
import { openNativeLibc } from './native.ts'
import { writeAll } from './write-all.ts'

/** SEEK_DATA and SEEK_HOLE. */
const seekData = 3
const seekHole = 4
const blockBytes = 4096
const zeroes = Buffer.alloc(blockBytes)

type FileSeek = (file: number, from: number, what: number) => number | undefined

let seek: FileSeek | undefined

/** Holes and blocks of zeroes become holes in the copy. Synchronous: the calling thread waits. */
export function copySparsely(from: string, to: string): void {
  seek ??= openSeek()
  const source = openSync(from, 'r')
  const target = openSync(to, 'w')
  try {
    ftruncateSync(target, fstatSync(source).size)
    let end = 0
    for (;;) {
      const start = seek(source, end, seekData)
      if (start === undefined) return
      end = seek(source, start, seekHole)!
      copyBlocks(source, target, start, end)
    }
  } finally {
    closeSync(target)
    closeSync(source)
  }
}

function copyBlocks(source: number, target: number, start: number, end: number): void {
  const block = Buffer.allocUnsafe(blockBytes)
  for (let at = start; at < end; ) {
    // Reads up to the end of a block, because holes begin and end at blocks.
    const count = readSync(source, block, 0, Math.min(end - at, blockBytes - (at % blockBytes)), at)
    if (count === 0) throw new Error('A file became shorter while it was copied.')
    const read = block.subarray(0, count)
    if (!read.equals(zeroes.subarray(0, count))) writeAll(target, read, at)
    at += count
  }
}

/** Undefined if there is no more data. */
function openSeek(): FileSeek {
  const libc = openNativeLibc('Disks cannot be copied')
  const lseek: CFunction = libc.func('int64_t lseek(int file, int64_t offset, int whence)')
  return (file, from, what) => {
    const found = lseek(file, from, what)
    if (found >= 0) return found
    const failure = libc.failure('lseek')
    if (failure.code === 'ENXIO') return undefined
    throw failure
  }
}
