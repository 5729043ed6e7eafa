/**
 * `npm run release`: makes everything that a machine without a network can be given: the archive, a Debian package, a
 * container image, their checksums and the bill of materials. The same commit and the same Debian packages give the
 * same bytes.
 */

import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { sha256OfFile } from '../../lib/file-digest.ts'
import { runCommand } from '../../lib/run-command.ts'
import { projectFolder } from '../project/project-folder.ts'
import { makeImageOf } from './container-image.ts'
import { makeDebianPackage } from './debian-package.ts'
import { goModules } from './go-modules.ts'
import type { ReleaseManifest } from './manifest.ts'
import { fillReleaseFolder } from './release-folder.ts'
import {
  bom,
  debianComponent,
  gvisorComponents,
  type LockFile,
  npmComponent,
  releasedPackages,
} from './sbom.ts'
import { addShippedParts } from './shipped-parts.ts'

/** `package` and `image` are missing if only the archive was asked for. */
export type Release = {
  archive: string
  checksums: string
  sbom: string
  version: string
  package?: string
  image?: string
}

type ReleaseOptions = {
  /** Without the Debian package and the container image. */
  onlyArchive?: boolean
  /** Takes the place of the version in package.json. */
  version?: string
}

export async function makeRelease(
  outFolder: string,
  { onlyArchive = false, version: given }: ReleaseOptions = {},
): Promise<Release> {
  const readJSON = async (path: string) => JSON.parse(await readFile(join(projectFolder, path), 'utf8'))
  const version = given ?? ((await readJSON('package.json')) as { version: string }).version
  const commit = await git('%H')
  const when = await git('%cI')
  const name = `warren-${version}`
  const work = await mkdtemp(join(tmpdir(), 'warren-release-'))
  try {
    const folder = join(work, name)
    const lock = (await readJSON('package-lock.json')) as LockFile
    const packages = releasedPackages(lock, (path) => existsSync(join(projectFolder, path)))
    await mkdir(folder)
    const { runsc, base, system } = await addShippedParts(folder)
    const manifest: ReleaseManifest = {
      version,
      commit,
      architecture: process.arch,
      runsc: { version: runsc.version, sha256: runsc.sha256 },
      base: { hash: base.hash, sha256: base.sha256 },
    }
    await fillReleaseFolder(folder, packages, manifest)
    await mkdir(outFolder, { recursive: true })
    const archive = join(outFolder, `${name}-${process.arch}.tar.gz`)
    await packFolder({ work, name, archive, when })
    const sbom = join(outFolder, `${name}-${process.arch}.sbom.json`)
    const components = [
      ...packages.map(npmComponent),
      ...gvisorComponents(manifest.runsc, await goModules(runsc.path)),
      ...[...base.packages, ...system.packages].map(debianComponent),
    ]
    await writeFile(sbom, `${JSON.stringify(bom(version, when, components), null, 2)}\n`)
    const made: Release = {
      archive,
      sbom,
      version,
      checksums: join(outFolder, `${name}-${process.arch}.sha256`),
    }
    if (!onlyArchive) {
      made.image = join(outFolder, `${name}-${process.arch}.oci.tar`)
      await makeImageOf({ system: system.file, folder, version, out: made.image, createdAt: when })
      made.package = await makeDebianPackage({ folder, work, outFolder, version, when })
    }
    await writeChecksums(made)
    return made
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

type Packed = { work: string; name: string; archive: string; when: string }

async function packFolder({ work, name, archive, when }: Packed): Promise<void> {
  const same = ['--sort=name', `--mtime=${when}`, '--owner=0', '--group=0', '--numeric-owner', '--format=gnu']
  await runCommand('tar', [...same, '--use-compress-program=gzip -n -6', '-cf', archive, '-C', work, name])
}

async function writeChecksums({ checksums, archive, sbom, package: deb, image }: Release): Promise<void> {
  const files = [archive, sbom, deb, image].filter((file) => file !== undefined)
  const lines = await Promise.all(
    files.map(async (file) => `${await sha256OfFile(file)}  ${basename(file)}\n`),
  )
  await writeFile(checksums, lines.join(''))
}

/** The archive depends on the commit and not on the time of the build. */
async function git(format: string): Promise<string> {
  const { stdout } = await runCommand('git', ['-C', projectFolder, 'log', '-1', `--format=${format}`])
  return stdout.trim()
}

if (import.meta.main) {
  const { version, ...files } = await makeRelease(join(projectFolder, 'dist'))
  process.stdout.write(`${Object.values(files).join('\n')}\n`)
}
