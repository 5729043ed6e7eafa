/**
 * Makes the root filesystem of the base template: a Debian root with the packages of the recipe, or a copy of a
 * folder. Built beside its place and renamed when complete; a packed copy of the Debian root in the cache
 * spares the next Warren the download.
 */
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { basename, join, normalize } from 'node:path'
import { AppError, errorText } from '../../lib/app-error.ts'
import * as recipe from './base-recipe.ts'
import { completeRoot } from './complete-root.ts'
import { buildRoot, canFinish } from './debian-root.ts'
import { copyFolder, folderHash } from './folder-root.ts'
import { packFolder, unpackFolder } from './packed-folder.ts'
import type { Progress } from './progress.ts'
import { findShipped, shippedBase } from './shipped.ts'

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
  const begun = await keepBegun(parent, hash)
  if (begun !== undefined && 'recipe' in wanted) {
    try {
      await makeDebian(
        `Go on with the base template that an earlier start began`,
        wanted.recipe,
        begun,
        progress,
      )
      await keepPacked(begun, findPacked(hash, cacheDir).file, progress)
      await rename(begun, folder)
      return { folder, hash }
    } catch (error) {
      progress.note(`It is made anew. ${errorText(error)}`)
      await removeLeftovers(parent)
    }
  }
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
    await removeLeftovers(parent)
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
  await makeDebian('Make the base template (Debian, Python, Node, git and more)', wanted, root, progress)
  await keepPacked(root, packed.file, progress)
}

const makeDebian = (title: string, wanted: recipe.BaseRecipe, root: string, progress: Progress) =>
  progress.step(title, (advance) => buildRoot(root, wanted, advance))

async function keepPacked(root: string, file: string, progress: Progress): Promise<void> {
  await progress.step('Keep a packed copy of the base template', (advance) =>
    packFolder(root, file, advance).catch((error) => progress.note(`No copy: ${errorText(error)}`)),
  )
}

const partialPrefix = 'partial-'

/** Returns the root that a killed start has begun, if it can be finished, and removes other remains. */
async function keepBegun(parent: string, hash: string): Promise<string | undefined> {
  const names = (await readdir(parent)).filter((name) => name.startsWith(`${partialPrefix}${hash}-`))
  const begun = names.find((name) => canFinish(join(parent, name)))
  await removeLeftovers(parent, begun)
  return begun === undefined ? undefined : join(parent, begun)
}

/** With the files beside them. */
async function removeLeftovers(parent: string, except?: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!name.startsWith(partialPrefix) || (except !== undefined && name.startsWith(except))) continue
    await rm(join(parent, name), { recursive: true, force: true })
  }
}
