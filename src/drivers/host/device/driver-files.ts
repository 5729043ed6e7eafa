/**
 * Copies the GPU driver's libraries and programs into one folder that sandboxes mount read-only. Because it is a copy, an
 * update of the driver changes nothing in a running sandbox. Links in the sandbox's own library folder lead programs to
 * the libraries.
 */
import { createHash } from 'node:crypto'
import { constants, readdirSync, realpathSync } from 'node:fs'
import { chmod, copyFile, mkdir, readdir, rename, rm, stat, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { ifPresent, ifPresentNow } from '../../../lib/if-present.ts'
import type { MachineGpus } from './gpus.ts'

/** Path of the folder inside a sandbox. */
export const gpuMount = '/.warren-gpu'
/** Path, inside a sandbox, of our program that moves the GPU memory of a process to the host and back. */
export const checkpointProgram = join(gpuMount, 'bin', 'gpu-checkpoint')
const formatVersion = 1

/**
 * Makes the folder below `parent` if it does not exist, and returns its path. Removes the folders of other driver versions
 * for which `isUsed` is false.
 */
export async function prepareDriverFiles(
  parent: string,
  { driver, libraries, programs }: Pick<MachineGpus, 'driver' | 'libraries' | 'programs'>,
  ownProgram: string,
  isUsed: (folder: string) => boolean,
): Promise<string> {
  const sources = [...libraries, ...programs, ownProgram]
  const folder = join(parent, `${driver}-${await fingerprint(sources)}`)
  if (!(await ifPresent(stat(folder)))) {
    const partial = `${folder}.partial`
    await rm(partial, { recursive: true, force: true })
    await Promise.all(['lib', 'bin'].map((name) => mkdir(join(partial, name), { recursive: true })))
    for (const path of libraries) await copyLibrary(path, join(partial, 'lib'))
    for (const path of programs) await copy(path, join(partial, 'bin', basename(path)))
    await copy(ownProgram, join(partial, 'bin', basename(checkpointProgram)))
    await chmod(partial, 0o755)
    await rename(partial, folder)
  }
  const others = (await readdir(parent)).map((name) => join(parent, name))
  await Promise.all(
    others
      .filter((other) => other !== folder && !isUsed(other))
      .map((other) => rm(other, { recursive: true, force: true })),
  )
  return folder
}

/** Copies a library under its own name, and links the names by which programs ask for it. */
async function copyLibrary(path: string, folder: string): Promise<void> {
  const name = basename(path)
  await copy(path, join(folder, name))
  for (const link of namesAskedFor(path)) await symlink(name, join(folder, link))
}

async function copy(from: string, to: string): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_FICLONE)
  await chmod(to, 0o755)
}

/** Names of the links to this file in its folder. The driver's installer makes one for each name a program may ask for. */
function namesAskedFor(path: string): string[] {
  const [folder, name] = [dirname(path), basename(path)]
  const stem = name.slice(0, name.indexOf('.so.') + 4)
  const links = readdirSync(folder).filter(
    (other) => other !== name && other.startsWith(stem) && leadsTo(join(folder, other), path),
  )
  return links.length > 0 ? links : [`${stem}1`]
}

function leadsTo(link: string, path: string): boolean {
  return ifPresentNow(() => realpathSync(link)) === realpathSync(path)
}

async function fingerprint(paths: readonly string[]): Promise<string> {
  const hash = createHash('sha256').update(String(formatVersion))
  for (const path of [...paths].sort()) {
    const { size, mtimeMs } = await stat(path)
    hash.update(`\n${path} ${size} ${mtimeMs}`)
  }
  return hash.digest('hex').slice(0, 12)
}

/** The links that a sandbox's root needs so that programs find the driver. Paths are those inside the sandbox. */
export function driverLinks(
  folder: string,
  libraryFolder: string | undefined,
): { path: string; target: string }[] {
  const lib = readdirSync(join(folder, 'lib'))
  const bin = readdirSync(join(folder, 'bin')).filter((name) => name !== basename(checkpointProgram))
  return [
    ...(libraryFolder === undefined
      ? []
      : lib.map((name) => ({ path: join(libraryFolder, name), target: join(gpuMount, 'lib', name) }))),
    ...bin.map((name) => ({ path: join('usr/bin', name), target: join(gpuMount, 'bin', name) })),
  ]
}

/** Folders that a C library searches by default. */
const libraryFolders = ['usr/lib/x86_64-linux-gnu', 'usr/lib/aarch64-linux-gnu', 'usr/lib64']

/** Undefined if the root has none of the library folders; its programs cannot load the driver. */
export function findLibraryFolder(
  hasFolder: (path: string) => boolean,
  arch = process.arch,
): string | undefined {
  const foreign = arch === 'x64' ? 'aarch64' : 'x86_64'
  return libraryFolders.find((folder) => !folder.includes(foreign) && hasFolder(folder))
}
