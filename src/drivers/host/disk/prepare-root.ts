/**
 * Shifts a root filesystem's owners into the range that sandboxes are mapped to. The folder is changed in
 * place; two files beside it record the progress, so that a crash in the middle does no harm.
 */
import { existsSync, type Stats } from 'node:fs'
import { chmod, lchown, lstat, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { AppError } from '../../../lib/app-error.ts'
import { randomHex } from '../../../lib/ids.ts'
import { ifPresent } from '../../../lib/if-present.ts'
import { mappedIDs } from '../namespace/mapped-ids.ts'
import { assertPlainPath } from '../record/layout.ts'

/** Paths are bytes here: names in an image need not be UTF-8. */
type Visit = (path: Buffer, found: Stats) => Promise<void>
/** Path in hex, and the mode to restore. */
type Special = [string, number][]

/** Bits that the kernel clears when an owner changes. */
const bitsLostByChown = 0o6000

export async function prepareRoot(rootFolder: string, uidBase: number): Promise<void> {
  const root = resolve(rootFolder)
  assertPlainPath(root)
  const done = `${root}.prepared-${uidBase}`
  if (existsSync(done)) return
  const found = await ifPresent(lstat(root))
  if (!found?.isDirectory()) {
    throw new AppError('not_found', `${root} is not a folder; unpack a root filesystem there first.`)
  }
  const pending = `${root}.preparing-${uidBase}`
  const special = await noteSpecial(root, pending, uidBase)
  await eachEntry(Buffer.from(root), (path, entry) => shift(path, entry, uidBase))
  for (const [path, mode] of special) await chmod(Buffer.from(path, 'hex'), mode)
  await writeWhole(done, '')
  await rm(pending, { force: true })
}

/** Notes the setuid files before the first owner changes: afterwards they could not be recognized. */
async function noteSpecial(root: string, pending: string, uidBase: number): Promise<Special> {
  const noted = await ifPresent(readFile(pending, 'utf8'))
  if (noted !== undefined) return JSON.parse(noted) as Special
  const special: Special = []
  await eachEntry(Buffer.from(root), async (path, { mode, uid }) => {
    if (mode & bitsLostByChown && uid < uidBase) special.push([path.toString('hex'), mode & 0o7777])
  })
  await writeWhole(pending, JSON.stringify(special))
  return special
}

/** Owners at or above the base were shifted before a crash. */
async function shift(path: Buffer, { uid, gid }: Stats, uidBase: number): Promise<void> {
  const moved = (id: number) => (id >= uidBase ? id : uidBase + Math.min(id, mappedIDs - 1))
  if (uid < uidBase || gid < uidBase) await lchown(path, moved(uid), moved(gid))
}

async function eachEntry(path: Buffer, visit: Visit): Promise<void> {
  const found = await lstat(path)
  await visit(path, found)
  if (!found.isDirectory()) return
  const entries = await readdir(path, { withFileTypes: true, encoding: 'buffer' })
  const below = (name: Buffer) => Buffer.concat([path, Buffer.from('/'), name])
  // Files of one folder together, folders one after another: fast, but bounded.
  await Promise.all(
    entries.filter((entry) => !entry.isDirectory()).map((entry) => eachEntry(below(entry.name), visit)),
  )
  for (const entry of entries) if (entry.isDirectory()) await eachEntry(below(entry.name), visit)
}

async function writeWhole(path: string, text: string): Promise<void> {
  // Two processes may prepare the same root: each writes its own file, and the last one wins.
  const beside = `${path}.${randomHex(4)}`
  await writeFile(beside, text)
  await rename(beside, path)
}
