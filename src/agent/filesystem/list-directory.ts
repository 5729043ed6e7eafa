import { isUtf8 } from 'node:buffer'
import { readdirSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { monotonicMs } from '../../lib/clock.ts'
import { fromSystemError, systemErrorCode } from '../errors.ts'
import type { EntryInit, EntryPath } from './entry.ts'

const maxEntries = 200_000
const longestTurnMs = 10

/**
 * Depth first, names in byte order, a folder before its entries. Links below the root are listed but not
 * followed, so that circular links are harmless. Entries that vanish meanwhile or cannot be read are left
 * out.
 */
export async function listDirectory(
  root: string,
  depth: number,
  describe: (path: EntryPath) => EntryInit,
  signal: AbortSignal,
): Promise<EntryInit[]> {
  if (!statPath(root).isDirectory()) {
    throw new AppError('invalid_argument', `path is not a directory: ${root}`)
  }
  const entries: EntryInit[] = []
  // A stack of unread names instead of recursion: a tree may be deeper than our call stack.
  const open: { folder: EntryPath; names: EntryPath[] }[] = [
    { folder: root, names: sortedNames(realpathSync(root)) },
  ]
  let turnEnds = monotonicMs() + longestTurnMs
  while (open.length > 0) {
    const current = open.at(-1)!
    const name = current.names.pop()
    if (name === undefined) {
      open.pop()
      continue
    }
    const path = joinPath(current.folder, name)
    const entry = skipClosed(() => describe(path))
    if (!entry) continue
    if (entries.push(entry) > maxEntries) {
      throw new AppError('limit_reached', `more than ${maxEntries} entries: list with a smaller depth`)
    }
    if (open.length < depth && entry.permissions?.startsWith('d')) {
      const names = skipClosed(() => sortedNames(path))
      if (names) open.push({ folder: path, names })
    }
    if (monotonicMs() > turnEnds) {
      await new Promise((resolve) => setImmediate(resolve))
      signal.throwIfAborted()
      turnEnds = monotonicMs() + longestTurnMs
    }
  }
  return entries
}

function statPath(path: string) {
  try {
    return statSync(path)
  } catch (error) {
    throw fromSystemError(error, path)
  }
}

/** Last name first, so that the next one is taken off the end. */
function sortedNames(folder: EntryPath): EntryPath[] {
  const names = readdirSync(folder)
  if (names.some((name) => name.includes('\ufffd'))) return sortedBytes(folder)
  if (names.every((name) => /^[\0-\x7f]*$/.test(name))) return names.sort().reverse()
  return names.sort((a, b) => Buffer.compare(Buffer.from(b), Buffer.from(a)))
}

/** Names that are not UTF-8 stay bytes. */
function sortedBytes(folder: EntryPath): EntryPath[] {
  const names = readdirSync(folder, { encoding: 'buffer' }).sort((a, b) => Buffer.compare(b, a))
  return names.map((name) => (isUtf8(name) ? name.toString() : name))
}

function joinPath(folder: EntryPath, name: EntryPath): EntryPath {
  if (typeof folder === 'string' && typeof name === 'string') return join(folder, name)
  return Buffer.concat([Buffer.from(folder), Buffer.from('/'), Buffer.from(name)])
}

/** The entry vanished meanwhile, or is the kernel's and closed even to us. */
const skipped = new Set(['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM'])

function skipClosed<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (skipped.has(systemErrorCode(error) ?? '')) return undefined
    throw error
  }
}
