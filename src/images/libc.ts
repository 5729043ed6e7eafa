/** What the file system can do and Node cannot: attributes, whiteouts and fifos. */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { getSystemErrorName } from 'node:util'
import { AppError } from '../lib/app-error.ts'

type CFunction = (...values: unknown[]) => number
type Addon = { load(library: string): { func(prototype: string): CFunction }; errno(): number }

export type Libc = {
  setXattr(path: Buffer, name: string, value: Buffer): void
  /** A device 0:0: overlayfs takes it for "removed here". */
  makeWhiteout(path: Buffer): void
  makeFifo(path: Buffer): void
}

const characterDevice = 0o020000
const fifo = 0o010000

export function openLibc(): Libc {
  const addon = loadAddon()
  const library = addon.load('libc.so.6')
  const lsetxattr = library.func(
    'int lsetxattr(const uint8_t *path, const char *name, const uint8_t *value, size_t size, int flags)',
  )
  const mknod = library.func('int mknod(const uint8_t *path, uint32_t mode, uint64_t device)')
  const checked = (call: string, result: number) => {
    if (result === 0) return
    const code = getSystemErrorName(-addon.errno())
    throw Object.assign(new Error(`${code}: ${call}`), { code })
  }
  const terminated = (path: Buffer) => Buffer.concat([path, Buffer.alloc(1)])
  return {
    setXattr: (path, name, value) =>
      checked(`set ${name}`, lsetxattr(terminated(path), name, value, value.length, 0)),
    makeWhiteout: (path) => checked('make a whiteout', mknod(terminated(path), characterDevice, 0)),
    makeFifo: (path) => checked('make a fifo', mknod(terminated(path), fifo | 0o600, 0)),
  }
}

function loadAddon(): Addon {
  const machine = `linux-${process.arch}`
  const module = { exports: {} as Addon }
  try {
    const described = createRequire(import.meta.url).resolve(`@koromix/koffi-${machine}/package.json`)
    process.dlopen(module, join(dirname(described), machine.replace('-', '_'), 'koffi.node'))
  } catch (error) {
    throw new AppError(
      'unavailable',
      `Images cannot be unpacked: the package @koromix/koffi-${machine} is missing. Install Warren again with its optional packages.`,
      { cause: error },
    )
  }
  return module.exports
}
