/** What clients note about files, kept by the file system itself as extended attributes. */
import { AppError } from '../../lib/app-error.ts'
import { type SyscallProcess, splitFrames } from './syscall-process.ts'

export type FileMetadata = Record<string, string>

const attributePrefix = 'user.e2b.'
const pathsPerCall = 2000
const outOfSpace = new Set([7, 28, 122])

export class Metadata {
  #syscalls: SyscallProcess

  constructor(syscalls: SyscallProcess) {
    this.#syscalls = syscalls
  }

  /** The metadata of each path, links followed; nothing for one that has none or cannot be read. */
  async read(paths: readonly string[]): Promise<(FileMetadata | undefined)[]> {
    const all: (FileMetadata | undefined)[] = []
    for (let at = 0; at < paths.length; at += pathsPerCall) {
      const some = paths.slice(at, at + pathsPerCall)
      const given = [attributePrefix, ...some]
      all.push(
        ...(await this.#syscalls.call('read', given, (answer) => splitFrames(answer).items.map(parse))),
      )
    }
    return all
  }

  async readOne(path: string): Promise<FileMetadata | undefined> {
    return (await this.read([path]))[0]
  }

  /** Gives a file exactly this metadata, and the attributes of others that the file it replaces has. */
  async replace(path: string, metadata: FileMetadata, replaced = ''): Promise<void> {
    const pairs = Object.entries(metadata).flatMap(([key, value]) => [attributePrefix + key, value])
    const given = [attributePrefix, path, replaced, ...pairs]
    const errno = await this.#syscalls.call('replace', given, (answer) => answer.readInt32BE(0))
    if (errno === 0) return
    if (outOfSpace.has(errno)) {
      throw new AppError('no_space', 'not enough disk space available for the metadata: give less of it')
    }
    throw new AppError(
      'invalid_argument',
      'the file system there keeps no metadata: upload without it or to another directory',
    )
  }
}

function parse(attributes: Buffer): FileMetadata | undefined {
  const { items } = splitFrames(attributes)
  if (items.length === 0) return undefined
  const metadata: FileMetadata = {}
  for (let at = 0; at + 1 < items.length; at += 2) {
    metadata[items[at]!.toString().slice(attributePrefix.length)] = items[at + 1]!.toString()
  }
  return metadata
}
