/**
 * Gives a foreign root what every E2B client counts on and an image may lack: the users root and `user` with a
 * home, and something at /bin/bash. None of the root's programs is run, and no link of it leads out of it.
 */
import { chmod, chown, lstat, mkdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { basename, dirname, join, normalize } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { ifPresent } from '../../lib/if-present.ts'

const name = 'user'
const home = '/home/user'
const firstID = 1000
const maxLinks = 40

export async function completeRoot(root: string): Promise<void> {
  await addRow(root, '/etc/passwd', 'root:x:0:0::/root:/bin/sh')
  await addRow(root, '/etc/group', 'root:x:0:')
  await addUser(root)
  await addShell(root)
}

async function addUser(root: string): Promise<void> {
  const users = await readRows(root, '/etc/passwd')
  if (users.some((row) => row[0] === name)) return
  const groups = await readRows(root, '/etc/group')
  const uid = freeID(users)
  const known = groups.find((row) => row[0] === name)
  const gid = known ? Number(known[2]) : freeID(groups, uid)
  await addRow(root, '/etc/group', `${name}:x:${gid}:`)
  await addRow(root, '/etc/passwd', `${name}:x:${uid}:${gid}::${home}:/bin/bash`)
  // The row allows no password; without a row some programs reject the user altogether.
  if (await exists(root, '/etc/shadow')) await addRow(root, '/etc/shadow', `${name}:*:19000:0:99999:7:::`)
  if (await exists(root, '/etc/sudoers.d')) {
    await writeInside(root, '/etc/sudoers.d/user', `${name} ALL=(ALL:ALL) NOPASSWD: ALL\n`, 0o440)
  }
  await addHome(root, uid, gid)
}

/**
 * An image that only mentions the folder, as by WORKDIR, leaves it to root. Then it becomes the user's; what
 * lies in it stays root's. A link is left alone.
 */
async function addHome(root: string, uid: number, gid: number): Promise<void> {
  const path = join(await insideRoot(root, dirname(home)), basename(home))
  const there = await ifPresent(lstat(path))
  if (!there) await mkdir(path, { recursive: true, mode: 0o755 })
  if (!there || (there.isDirectory() && there.uid === 0)) await chown(path, uid, gid)
}

/** Clients start every command as `/bin/bash -l -c …`; any shell of POSIX understands these. */
async function addShell(root: string): Promise<void> {
  if ((await exists(root, '/bin/bash')) || !(await exists(root, '/bin/sh'))) return
  await writeInside(root, '/bin/bash', '#!/bin/sh\nexec /bin/sh "$@"\n', 0o755)
}

function freeID(rows: string[][], wanted = firstID): number {
  const usedIDs = new Set(rows.map((row) => Number(row[2])))
  let id = wanted
  while (usedIDs.has(id)) id++
  return id
}

async function readRows(root: string, path: string): Promise<string[][]> {
  const text = (await ifPresent(readFile(await insideRoot(root, path), 'utf8'))) ?? ''
  return text.split('\n').map((line) => line.split(':'))
}

/** Adds a row unless the file has one of that name. */
async function addRow(root: string, path: string, row: string): Promise<void> {
  const [wanted] = row.split(':')
  if ((await readRows(root, path)).some(([known]) => known === wanted)) return
  const before = (await ifPresent(readFile(await insideRoot(root, path), 'utf8'))) ?? ''
  const text = before === '' || before.endsWith('\n') ? before : `${before}\n`
  await writeInside(root, path, `${text}${row}\n`)
}

/** Keeps the mode of a file that exists, unless a mode is given. */
async function writeInside(root: string, path: string, text: string, mode?: number): Promise<void> {
  const target = await insideRoot(root, path)
  await mkdir(dirname(target), { recursive: true })
  await writeFile(target, text)
  if (mode !== undefined) await chmod(target, mode)
}

async function exists(root: string, path: string): Promise<boolean> {
  return (await ifPresent(lstat(await insideRoot(root, path)))) !== undefined
}

/** Where a path of the root really lies: links are followed as if the root were `/`. */
export async function insideRoot(root: string, path: string): Promise<string> {
  let found = '/'
  let rest = path.split('/').filter(Boolean)
  for (let links = 0; rest.length > 0; ) {
    const [part, ...after] = rest as [string, ...string[]]
    const next = normalize(join(found, part))
    const target = await ifPresent(readlink(join(root, next)).catch(notALink))
    if (target === undefined) {
      found = next
      rest = after
      continue
    }
    if (++links > maxLinks) {
      throw new AppError('invalid_argument', `${basename(path)} is a link to itself in the base template.`)
    }
    if (target.startsWith('/')) found = '/'
    rest = [...target.split('/').filter(Boolean), ...after]
  }
  return join(root, found)
}

function notALink(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'EINVAL') throw error
}
