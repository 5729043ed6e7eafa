/** Makes what a first start would otherwise download and build: gVisor, the base template and packages of npm. */

import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { sha256OfFile } from '../../lib/file-digest.ts'
import { runCommand } from '../../lib/run-command.ts'
import { loadConfig } from '../config/config.ts'
import { projectFolder } from '../project/project-folder.ts'
import { nodePackages } from '../setup/base-recipe.ts'
import { makeBaseRoot } from '../setup/base-root.ts'
import { downloadGo, findGo } from '../setup/go-toolchain.ts'
import { installRunsc, runscPath } from '../setup/gvisor.ts'
import { builtVersion, fetchModule, gvisorVersion } from '../setup/gvisor-build.ts'
import { createProgress, type Progress } from '../setup/progress.ts'
import { shippedBase, shippedFolder, shippedPackages, shippedPrograms } from '../setup/shipped.ts'
import { goModules } from './go-modules.ts'
import { compress, newestPackageSeconds, sameTar } from './same-bytes.ts'
import {
  type DebianPackage,
  makeSystemRoot,
  packagesIn,
  packPrograms,
  removeTracesOfBuild,
  systemRecipe,
} from './system-root.ts'

const secondsOfDay = 24 * 3600
/** Between releases, since neither changes often. */
const packedFolder = join(projectFolder, '.cache/release')

type ShippedParts = {
  runsc: { version: string; sha256: string; path: string }
  base: { hash: string; sha256: string; packages: DebianPackage[] }
  /** A packed Debian root with the programs that Warren calls. */
  system: { file: string; packages: DebianPackage[] }
}

/** Puts everything into the folder of a release. */
export async function addShippedParts(release: string): Promise<ShippedParts> {
  const progress = createProgress(process.stderr)
  await mkdir(join(release, shippedFolder), { recursive: true })
  await packNodePackages(join(release, shippedPackages))
  const work = await mkdtemp(join(release, '..', 'parts-'))
  try {
    const runsc = await addRunsc(release, work, progress)
    await progress.step('Collect the licences of what gVisor is built of', () =>
      copyGoLicences(join(release, shippedFolder, 'licences'), runsc.path, work),
    )
    const { hash, packed } = await packBase(work, progress)
    await copyFile(packed.file, join(release, shippedBase(hash)))
    const system = await packSystem(work, progress)
    await progress.step('Pack the programs that a bare machine lacks', () =>
      packPrograms(system.root, join(release, shippedPrograms)),
    )
    return {
      runsc,
      base: { hash, sha256: await sha256OfFile(packed.file), packages: packed.packages },
      system: system.packed,
    }
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/**
 * npm and yarn, for a base template that is made on the machine: their checksums are pinned, and a machine without npm
 * cannot fetch them.
 */
async function packNodePackages(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const { name, version } of nodePackages) {
    await runCommand('npm', ['pack', '--silent', `${name}@${version}`], { cwd: folder })
  }
}

async function addRunsc(release: string, work: string, progress: Progress): Promise<ShippedParts['runsc']> {
  const built = await installRunsc(join(work, 'runtimes'), loadConfig({}).cacheDir, progress)
  if ('missing' in built) throw new AppError('unavailable', `A release needs gVisor. ${built.missing}`)
  const path = runscPath(join(release, shippedFolder), builtVersion)
  await mkdir(join(path, '..'), { recursive: true })
  await copyFile(built.path, path)
  await chmod(path, 0o755)
  return { version: builtVersion, sha256: await sha256OfFile(path), path }
}

/** Of gVisor and of each of its modules. Go's checksum database vouches for the sources. */
async function copyGoLicences(folder: string, program: string, work: string): Promise<void> {
  const go = (await findGo()) ?? (await downloadGo(join(work, 'go'), () => {}))
  const modules = [{ path: 'gvisor.dev/gvisor', version: gvisorVersion }, ...(await goModules(program))]
  for (const { path, version } of modules) {
    const sources = await fetchModule(go, join(work, 'modules'), `${path}@${version}`)
    const names = (await readdir(sources)).filter((name) => /^(licen[cs]e|copying|notice)/i.test(name))
    if (names.length === 0)
      throw new AppError('internal', `${path} ${version} has no licence in its sources.`)
    await mkdir(join(folder, path), { recursive: true })
    for (const name of names) await copyFile(join(sources, name), join(folder, path, name))
  }
}

type PackedRoot = { file: string; packages: DebianPackage[] }

async function packBase(work: string, progress: Progress): Promise<{ hash: string; packed: PackedRoot }> {
  const { baseImage, cacheDir } = loadConfig({})
  const { folder, hash } = await makeBaseRoot(join(work, 'base'), baseImage, cacheDir, progress)
  const packed = await packOnce(`base-${hash}`, progress, async () => folder)
  await rm(folder, { recursive: true, force: true })
  return { hash, packed }
}

async function packSystem(work: string, progress: Progress): Promise<{ root: string; packed: PackedRoot }> {
  const root = join(work, 'system')
  let isMade = false
  const packed = await packOnce(`system-${systemRecipe}`, progress, async () => {
    await progress.step('Make a Debian root with the programs that Warren calls', () => makeSystemRoot(root))
    isMade = true
    return root
  })
  if (!isMade) {
    await mkdir(root)
    await runCommand('tar', ['-xpf', packed.file, '-C', root, '--numeric-owner', '--same-owner'])
  }
  return { root, packed }
}

/** Packs a Debian root so that the same packages give the same bytes, and lists its packages. */
async function packOnce(
  name: string,
  progress: Progress,
  makeRoot: () => Promise<string>,
): Promise<PackedRoot> {
  await mkdir(packedFolder, { recursive: true })
  const file = join(packedFolder, `${name}.tar.zst`)
  const list = join(packedFolder, `${name}.packages.json`)
  if (existsSync(file)) {
    progress.note(`${name}: packed by an earlier release in ${packedFolder}.`)
    return { file, packages: JSON.parse(await readFile(list, 'utf8')) as DebianPackage[] }
  }
  const root = await makeRoot()
  const packages = await packagesIn(root)
  await progress.step(`Pack ${name}`, async () => {
    await packRoot(root, file)
  })
  await writeFile(list, `${JSON.stringify(packages)}\n`)
  return { file, packages }
}

async function packRoot(root: string, file: string): Promise<void> {
  const newest = await newestPackageSeconds(root)
  await removeTracesOfBuild(root, Math.floor(newest / secondsOfDay))
  const [tar, partial] = [`${file}.${process.pid}.tar`, `${file}.${process.pid}.partial`]
  try {
    const exact = ['--xattrs', '--xattrs-include=*']
    await runCommand('tar', [...sameTar(`@${newest}`), ...exact, '-cf', tar, '-C', root, '.'])
    await compress(tar, partial)
    await rename(partial, file)
  } finally {
    for (const path of [tar, partial]) await rm(path, { force: true })
  }
}
