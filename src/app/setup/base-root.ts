/**
 * Makes the root filesystem of the base template: a Debian root with the packages of the recipe, or a copy of a
 * folder. Built beside its place and renamed when complete; a packed copy of the Debian root in the cache
 * spares the next Warren the download.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { basename, dirname, join, normalize } from 'node:path'
import { AppError, errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import {
  complaints,
  type DebianMirrors,
  hostAcquireOptions,
  hostMirrors,
  plainEnvironment,
  runAptGet,
  withoutPassword,
} from './apt.ts'
import * as recipe from './base-recipe.ts'
import { completeRoot } from './complete-root.ts'
import { copyFolder, folderHash } from './folder-root.ts'
import { packFolder, unpackFolder } from './packed-folder.ts'
import { type Advance, eachLine, type Progress } from './progress.ts'
import { findShipped, shippedBase, shippedPackages } from './shipped.ts'

/** debootstrap's lines for the smallest Debian; only the bar depends on it. */
const debootstrapLines = 420

type BaseRoot = { folder: string; hash: string }

type BaseSource = { recipe: recipe.BaseRecipe } | { folder: string }

/** Parses the setting; rejects sources that are not supported. */
export function parseBaseSource(source: string): BaseSource {
  const folder = /^folder:(\/.+)$/.exec(source)?.[1]
  if (folder) return { folder: normalize(folder) }
  const release = /^debootstrap:([a-z]+)$/.exec(source)?.[1]
  if (release) return { recipe: { release, nodeVersion: process.version, architecture: process.arch } }
  throw new AppError(
    'invalid_argument',
    `WARREN_BASE_IMAGE is '${source}'. Container images come with a later version; write debootstrap:bookworm, or folder:/path for a root filesystem in a folder.`,
  )
}

/** Fills the folder with the root that another machine made under this name. False: there is none, and it is empty. */
export type FetchBase = (name: string, root: string, progress: Progress) => Promise<boolean>

/** Sees to it that `<parent>/base-<hash>` is a complete root; what an interrupted try left is removed. */
export async function makeBaseRoot(
  parent: string,
  source: string,
  cacheDir: string,
  progress: Progress,
  fetchBase?: FetchBase,
): Promise<BaseRoot> {
  const wanted = parseBaseSource(source)
  const hash = 'folder' in wanted ? await folderHash(wanted.folder) : recipe.recipeHash(wanted.recipe)
  const folder = join(parent, `base-${hash}`)
  if (existsSync(folder)) return { folder, hash }
  await mkdir(parent, { recursive: true, mode: 0o700 })
  await removeLeftovers(parent)
  const partial = await mkdtemp(join(parent, `${partialPrefix}${hash}-`))
  // The folder becomes `/` for apt, which drops its rights while it downloads.
  await chmod(partial, 0o755)
  try {
    if (await fetchBase?.(basename(folder), partial, progress)) await rename(partial, folder)
    if (existsSync(folder)) return { folder, hash }
    if ('folder' in wanted) await takeFolder(wanted.folder, partial, progress)
    else await takeDebian(wanted.recipe, partial, findPacked(hash, cacheDir), progress)
    await rename(partial, folder)
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    throw error
  }
  return { folder, hash }
}

async function takeFolder(folder: string, root: string, progress: Progress): Promise<void> {
  await progress.step(`Copy the base template from ${folder}`, () => copyFolder(folder, root))
  await completeRoot(root)
}

/** `from`: where a packed root is. Undefined: there is none yet. */
type PackedBase = { file: string; from?: string }

function findPacked(hash: string, cacheDir: string): PackedBase {
  const shipped = findShipped(shippedBase(hash))
  if (shipped !== undefined) return { file: shipped, from: 'this release' }
  const cached = join(cacheDir, `base-${hash}.tar`)
  return existsSync(cached) ? { file: cached, from: `the cache (${cacheDir})` } : { file: cached }
}

/** Whether debootstrap has to make the root, which needs programs and a network. */
export function mustBuildBase(parent: string, source: string, cacheDir: string): boolean {
  const wanted = parseBaseSource(source)
  if ('folder' in wanted) return false
  const hash = recipe.recipeHash(wanted.recipe)
  return !existsSync(join(parent, `base-${hash}`)) && findPacked(hash, cacheDir).from === undefined
}

async function takeDebian(
  wanted: recipe.BaseRecipe,
  root: string,
  packed: PackedBase,
  progress: Progress,
): Promise<void> {
  if (packed.from !== undefined) {
    await progress.step(`Unpack the base template from ${packed.from}`, (advance) =>
      unpackFolder(packed.file, root, advance),
    )
    return
  }
  await progress.step('Make the base template (Debian, Python, Node, git and more)', (advance) =>
    buildRoot(root, wanted, advance),
  )
  await progress.step('Keep a packed copy of the base template', (advance) =>
    packFolder(root, packed.file, advance).catch((error) => progress.note(`No copy: ${errorText(error)}`)),
  )
}

const partialPrefix = 'partial-'

async function removeLeftovers(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (name.startsWith(partialPrefix)) await rm(join(parent, name), { recursive: true, force: true })
  }
}

async function buildRoot(root: string, wanted: recipe.BaseRecipe, advance: Advance): Promise<void> {
  const part = (from: number, to: number): Advance => {
    return (share, detail) => advance(from + share * (to - from), detail)
  }
  const mirrors = await debootstrap(root, wanted.release, part(0, 0.25))
  for (const file of recipe.filesBefore) await writeRootFile(root, file)
  await rm(join(root, 'etc/apt/sources.list'), { force: true })
  const text = (using: DebianMirrors) => recipe.aptSources(wanted.release, using)
  const sources = '/etc/apt/sources.list.d/debian.sources'
  await writeRootFile(root, { path: sources, text: text(mirrors) })
  await copyFile('/etc/resolv.conf', join(root, 'etc/resolv.conf'))
  const options = await hostAcquireOptions()
  const apt = (args: string[], from: number, to: number) =>
    runAptGet(part(from, to), [...options, '-o', 'Dpkg::Options::=--force-unsafe-io', ...args], inRoot(root))
  await apt(['update'], 0.25, 0.28)
  await apt(['dist-upgrade', '--no-install-recommends'], 0.28, 0.3)
  await apt(['install', '--no-install-recommends', ...recipe.basePackages], 0.3, 0.92)
  // A password belongs to this machine, not to every sandbox.
  await writeRootFile(root, {
    path: sources,
    text: text({ main: withoutPassword(mirrors.main), security: withoutPassword(mirrors.security) }),
  })
  advance(0.92, 'adding Node')
  await addNode(root)
  advance(0.97, 'finishing')
  for (const file of recipe.filesAfter) await writeRootFile(root, file)
  const [program, ...args] = [...inRoot(root), 'sh', '-euc', recipe.finishScript]
  await runCommand(program!, args)
}

/**
 * Everything that runs has its own mounts and its own processes, and ends with this process however that
 * ends: nothing is left on the machine but the folder.
 */
const alone = ['setpriv', '--pdeathsig', 'KILL', 'unshare', '--mount', '--pid', '--fork', '--kill-child']

export function inRoot(root: string): string[] {
  return [...alone, `--mount-proc=${root}/proc`, 'chroot', root, ...plainEnvironment]
}

export async function debootstrap(root: string, release: string, advance: Advance): Promise<DebianMirrors> {
  const found = hostMirrors()
  let seen = 0
  const onLine = (line: string) => {
    seen += 1
    advance(Math.min(0.99, seen / debootstrapLines), line.replace(/^I: /, '').toLowerCase())
  }
  const args = ['debootstrap', '--variant=minbase', release, root, ...(found ? [found.main] : [])]
  const [program, ...before] = [...alone, '--mount-proc', ...plainEnvironment]
  try {
    await runCommand(program!, [...before, ...args], { onOutput: eachLine(onLine) })
  } catch (error) {
    const said = complaints(errorText(error))
    throw new AppError('unavailable', `debootstrap could not make a Debian ${release} root: ${said}`, {
      cause: error,
    })
  }
  if (found) return found
  // debootstrap chose a mirror by itself and wrote it to this file.
  const main = /^deb (\S+)/m.exec(await readFile(join(root, 'etc/apt/sources.list'), 'utf8'))?.[1]
  if (!main) throw new AppError('internal', 'debootstrap did not say which mirror it used.')
  return { main: main.replace(/\/$/, ''), security: `${main.replace(/\/$/, '')}-security` }
}

/** The Node that runs Warren, and npm and yarn at pinned versions, checked against their pinned checksums. */
async function addNode(root: string): Promise<void> {
  const bin = join(root, 'usr/local/bin')
  await copyFile(process.execPath, join(bin, 'node'))
  await chmod(join(bin, 'node'), 0o755)
  const download = join(root, 'tmp/node-packages')
  await mkdir(download)
  for (const { name, version, integrity, programs } of recipe.nodePackages) {
    const archive = await packedPackage(name, version, download)
    const digest = createHash('sha512')
      .update(await readFile(archive))
      .digest('base64')
    if (`sha512-${digest}` !== integrity) {
      throw new AppError('internal', `${name} ${version} is not what it should be: its checksum is wrong.`)
    }
    const target = join(root, 'usr/local/lib/node_modules', name)
    await mkdir(target, { recursive: true })
    const extract = ['-xf', archive, '-C', target, '--strip-components=1', '--no-same-owner']
    await runCommand('tar', extract)
    for (const [program, file] of Object.entries(programs)) {
      await chmod(join(target, file), 0o755)
      await symlink(`../lib/node_modules/${name}/${file}`, join(bin, program))
    }
  }
}

/** A release brings them; a clone has npm, which knows where to get them. */
async function packedPackage(name: string, version: string, folder: string): Promise<string> {
  const shipped = findShipped(`${shippedPackages}/${name.replace(/^@/, '').replace('/', '-')}-${version}.tgz`)
  if (shipped) return shipped
  const { stdout } = await runCommand('npm', ['pack', '--silent', `${name}@${version}`], { cwd: folder })
  return join(folder, basename(stdout.trim()))
}

async function writeRootFile(root: string, file: recipe.RootFile): Promise<void> {
  const path = join(root, file.path)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, file.text)
  await chmod(path, file.mode ?? 0o644)
}
