import { writeSync } from 'node:fs'

/** Writes all bytes at a position of an open file, however many the kernel takes at once. */
export function writeAll(fd: number, bytes: Uint8Array, at: number): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done, bytes.length - done, at + done)
}
