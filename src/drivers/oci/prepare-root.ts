/**
 * Shifts a root filesystem's owners into the range that sandboxes are mapped to. The folder is changed in
 * place; two files beside it say how far it came, so that a crash in the middle costs nothing.
 */
import { access, chmod, lchown, lstat, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { mappedIDs } from './container-spec.ts'
import { assertPlainPath } from './layout.ts'

type Entry = { path: string; uid: number; gid: number; mode: number; link: boolean }

/** Bits that the kernel clears when an owner changes. */
const bitsLostByChown = 0o6000

export async function prepareRoot(rootFolder: string, uidBase: number): Promise<void> {
  const root = resolve(rootFolder)
  assertPlainPath(root)
  const done = `${root}.prepared-${uidBase}`
  if (await isThere(done)) return
  const found = await lstat(root).catch(() => undefined)
  if (!found?.isDirectory()) {
    throw new AppError('not_found', `${root} is no folder; a root filesystem has to be unpacked there first.`)
  }
  const pending = `${root}.preparing-${uidBase}`
  const special = await recallSpecial(root, pending, uidBase)
  await eachEntry(root, (entry) => shift(entry, uidBase))
  for (const [path, mode] of special) await chmod(join(root, path), mode)
  await writeFile(`${done}.new`, '')
  await rename(`${done}.new`, done)
  await rm(pending, { force: true })
}

/** The setuid files are noted before the first owner changes: afterwards nobody could tell them any more. */
async function recallSpecial(root: string, pending: string, uidBase: number): Promise<[string, number][]> {
  const noted = await readFile(pending, 'utf8').catch(() => undefined)
  if (noted !== undefined) return JSON.parse(noted) as [string, number][]
  const special: [string, number][] = []
  await eachEntry(root, async ({ path, mode, link, uid }) => {
    if (!link && mode & bitsLostByChown && uid < uidBase)
      special.push([path.slice(root.length), mode & 0o7777])
  })
  await writeFile(`${pending}.new`, JSON.stringify(special))
  await rename(`${pending}.new`, pending)
  return special
}

/** Owners at or above the base were shifted before the crash. */
async function shift({ path, uid, gid }: Entry, uidBase: number): Promise<void> {
  const moved = (id: number) => (id >= uidBase ? id : uidBase + Math.min(id, mappedIDs - 1))
  if (uid < uidBase || gid < uidBase) await lchown(path, moved(uid), moved(gid))
}

async function eachEntry(path: string, visit: (entry: Entry) => Promise<void>): Promise<void> {
  const { uid, gid, mode } = await lstat(path)
  await visit({ path, uid, gid, mode, link: false })
  const entries = await readdir(path, { withFileTypes: true })
  const folders = entries.filter((entry) => entry.isDirectory())
  await Promise.all(
    entries
      .filter((entry) => !entry.isDirectory())
      .map(async (entry) => {
        const each = join(path, entry.name)
        const found = await lstat(each)
        await visit({
          path: each,
          uid: found.uid,
          gid: found.gid,
          mode: found.mode,
          link: found.isSymbolicLink(),
        })
      }),
  )
  for (const folder of folders) await eachEntry(join(path, folder.name), visit)
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
