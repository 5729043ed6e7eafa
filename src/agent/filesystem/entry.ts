/** A file or folder as the wire shows it. */
import { type BigIntStats, lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'
import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EntryInfoSchema } from '../../contract/rpc/filesystem_pb.ts'
import { FileType } from '../../contract/rpc/filesystem-fields.ts'
import type { Accounts } from '../accounts.ts'
import { systemErrorCode } from '../errors.ts'
import type { Metadata } from './metadata.ts'

export type EntryInit = MessageInitShape<typeof EntryInfoSchema>

/**
 * The sources of an entry's names and metadata; without metadata it has only the fields that old clients
 * know.
 */
type EntrySources = { accounts: Pick<Accounts, 'userName' | 'groupName'>; metadata?: Metadata }

/** Caches names for the duration of one answer: a listing asks for the same ones all the time. */
export function rememberNames(accounts: Accounts): EntrySources['accounts'] {
  const remember = (find: (id: number) => string) => {
    const known = new Map<number, string>()
    return (id: number) => {
      const name = known.get(id) ?? find(id)
      known.set(id, name)
      return name
    }
  }
  return {
    userName: remember((uid) => accounts.userName(uid)),
    groupName: remember((gid) => accounts.groupName(gid)),
  }
}

/** The bytes of a path that is not UTF-8: no string could be converted back into them. */
export type EntryPath = string | Buffer

/** A name that is constantly replaced may change between two calls many times in a row. */
const maxTries = 1000

/**
 * Describes the entry at `path` itself; throws the system's error if there is none. The wire has UTF-8 only:
 * other bytes of a path are shown as U+FFFD.
 */
export function describeEntry(path: EntryPath, sources: EntrySources): EntryInit {
  for (let tries = 1; ; tries++) {
    try {
      return describeOnce(path, sources)
    } catch (error) {
      // The entry was a link a moment ago and has been replaced.
      if (systemErrorCode(error) !== 'EINVAL' || tries === maxTries) throw error
    }
  }
}

function describeOnce(path: EntryPath, { accounts, metadata }: EntrySources): EntryInit {
  const shownPath = path.toString()
  const own = lstatSync(path, { bigint: true })
  const isLink = own.isSymbolicLink()
  const target = isLink ? statTarget(path) : own
  const shown = target ?? own
  return {
    name: basename(shownPath) || '/',
    path: shownPath,
    type: fileType(shown),
    size: shown.size,
    mode: Number(shown.mode & 0o777n),
    permissions: permissions(own),
    owner: accounts.userName(Number(own.uid)),
    group: accounts.groupName(Number(own.gid)),
    modifiedTime: { seconds: floorDivide(own.mtimeNs), nanos: Number(modulo(own.mtimeNs)) },
    ...(isLink && { symlinkTarget: linkTarget(path) }),
    ...(isLink && metadata && { isSymlink: true }),
    ...(metadata && target && typeof path === 'string' && noted(path, metadata)),
  }
}

/** If the metadata cannot be read, the rest still can. */
function noted(path: string, metadata: Metadata): Pick<EntryInit, 'metadata'> {
  try {
    const found = metadata.read(path)
    return found ? { metadata: found } : {}
  } catch {
    return {}
  }
}

/** Undefined for a broken or circular link. */
function statTarget(path: EntryPath): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true })
  } catch {
    return undefined
  }
}

function fileType(stats: BigIntStats): (typeof FileType)[keyof typeof FileType] {
  if (stats.isFile()) return FileType.FILE
  if (stats.isDirectory()) return FileType.DIRECTORY
  if (stats.isSymbolicLink()) return FileType.SYMLINK
  return FileType.UNSPECIFIED
}

/** The final target of a link; for a broken one, its direct target. */
function linkTarget(path: EntryPath): string {
  try {
    return realpathSync(path)
  } catch {
    return resolve(dirname(path.toString()), readlinkSync(path))
  }
}

/** Go's notation of a mode: letters for the type, then nine for the permissions. */
function permissions(stats: BigIntStats): string {
  const mode = Number(stats.mode)
  const kinds = [
    stats.isDirectory() && 'd',
    stats.isSymbolicLink() && 'L',
    (stats.isBlockDevice() || stats.isCharacterDevice()) && 'D',
    stats.isFIFO() && 'p',
    stats.isSocket() && 'S',
    mode & 0o4000 && 'u',
    mode & 0o2000 && 'g',
    stats.isCharacterDevice() && 'c',
    mode & 0o1000 && 't',
  ]
  const letters = [...'rwxrwxrwx'].map((letter, i) => (mode & (0o400 >> i) ? letter : '-'))
  return (kinds.filter(Boolean).join('') || '-') + letters.join('')
}

const nanosPerSecond = 1_000_000_000n

function modulo(nanos: bigint): bigint {
  return ((nanos % nanosPerSecond) + nanosPerSecond) % nanosPerSecond
}

function floorDivide(nanos: bigint): bigint {
  return (nanos - modulo(nanos)) / nanosPerSecond
}
