/** Clients' metadata of files, stored by the file system as extended attributes. */
import { AppError } from '../../lib/app-error.ts'
import { type CFunction, openCLibrary } from '../../lib/c-library.ts'

export type FileMetadata = Record<string, string>

export const attributePrefix = 'user.e2b.'
/** These belong to one file and its bytes: the kernel sets them, or removes them with the next write. */
const notCopied = /^(security|trusted)\./
/** The maximum length of a list and of a value. */
const largest = 64 * 1024
const outOfSpace = new Set([7, 28, 122])

type Calls = { list: CFunction; get: CFunction; set: CFunction; remove: CFunction; errno(): number }

export class Metadata {
  #addonPath: string
  #calls: Calls | undefined
  #buffer = Buffer.alloc(0)

  constructor(addonPath: string) {
    this.#addonPath = addonPath
  }

  /** A link has the metadata of its target. Undefined for a path that has none or cannot be read. */
  read(path: string): FileMetadata | undefined {
    const names = this.#names(path).filter((name) => name.startsWith(attributePrefix))
    if (names.length === 0) return undefined
    const pairs = names.map((name) => [
      name.slice(attributePrefix.length),
      this.#value(path, name)?.toString(),
    ])
    return Object.fromEntries(pairs.filter(([, value]) => value !== undefined))
  }

  /** Gives a file exactly this metadata, and the other attributes of the file that it replaces. */
  replace(path: string, metadata: FileMetadata, replaced?: string): void {
    for (const name of this.#names(path)) {
      if (name.startsWith(attributePrefix)) this.#bind().remove(path, name)
    }
    for (const name of replaced === undefined || replaced === path ? [] : this.#names(replaced)) {
      const value =
        name.startsWith(attributePrefix) || notCopied.test(name) ? undefined : this.#value(replaced!, name)
      if (value) this.#bind().set(path, name, value, value.length, 0)
    }
    for (const [key, text] of Object.entries(metadata)) {
      const value = Buffer.from(text)
      if (this.#bind().set(path, attributePrefix + key, value, value.length, 0) !== 0) throw this.#rejection()
    }
  }

  #names(path: string): string[] {
    const calls = this.#bind()
    const length = calls.list(path, this.#buffer, this.#buffer.length)
    if (length <= 0) return []
    return this.#buffer.toString('utf8', 0, length - 1).split('\0')
  }

  #value(path: string, name: string): Buffer | undefined {
    const length = this.#bind().get(path, name, this.#buffer, this.#buffer.length)
    return length < 0 ? undefined : Buffer.from(this.#buffer.subarray(0, length))
  }

  #rejection(): AppError {
    if (outOfSpace.has(this.#bind().errno())) {
      return new AppError('no_space', 'not enough disk space available for the metadata: give less of it')
    }
    return new AppError(
      'invalid_argument',
      'the file system there keeps no metadata: upload without it or to another directory',
    )
  }

  #bind(): Calls {
    if (this.#calls) return this.#calls
    const libc = openCLibrary(this.#addonPath)
    this.#buffer = Buffer.alloc(largest)
    this.#calls = {
      list: libc.func('long listxattr(const char *path, void *list, size_t size)'),
      get: libc.func('long getxattr(const char *path, const char *name, void *value, size_t size)'),
      set: libc.func('int setxattr(const char *path, const char *name, void *value, size_t size, int flags)'),
      remove: libc.func('int removexattr(const char *path, const char *name)'),
      errno: libc.errno,
    }
    return this.#calls
  }
}
