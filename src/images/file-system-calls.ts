/** Calls of the C library that Node does not have: extended attributes, whiteouts and fifos. */
import { openNativeLibc } from '../lib/native.ts'

export type FileSystemCalls = {
  setXattr(path: Buffer, name: string, value: Buffer): void
  /** Creates a device 0:0, with which overlayfs hides a name of the layers below. */
  makeWhiteout(path: Buffer): void
  makeFifo(path: Buffer): void
}

const characterDevice = 0o020000
const fifo = 0o010000

export function openFileSystemCalls(): FileSystemCalls {
  const libc = openNativeLibc('Images cannot be unpacked')
  const lsetxattr = libc.func(
    'int lsetxattr(const uint8_t *path, const char *name, const uint8_t *value, size_t size, int flags)',
  )
  const mknod = libc.func('int mknod(const uint8_t *path, uint32_t mode, uint64_t device)')
  const checked = (call: string, result: number) => {
    if (result !== 0) throw libc.failure(call)
  }
  const terminated = (path: Buffer) => Buffer.concat([path, Buffer.alloc(1)])
  return {
    setXattr: (path, name, value) =>
      checked(`set ${name}`, lsetxattr(terminated(path), name, value, value.length, 0)),
    makeWhiteout: (path) => checked('make a whiteout', mknod(terminated(path), characterDevice, 0)),
    makeFifo: (path) => checked('make a fifo', mknod(terminated(path), fifo | 0o600, 0)),
  }
}
