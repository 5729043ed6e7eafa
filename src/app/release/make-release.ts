/**
 * `npm run release`: makes an archive of everything that the server needs, including Node and packages, with
 * its checksum and its bill of materials. The same commit gives the same bytes.
 */
import { createHash } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  utimesSync,
} from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { runCommand } from '../../lib/run-command.ts'
import { systemdUnit } from '../commands/systemd-command.ts'
import { projectFolder } from '../project/project-folder.ts'
import { nodePackages } from '../setup/base-recipe.ts'
import { bom, type LockFile, type ReleasedPackage, releasedPackages } from './sbom.ts'

/** The shipped files besides the packages. */
const shipped = [
  ...[
    'bin/node',
    'bin/warren',
    'bin/bundle',
    'bin/install-packages',
    'bin/container-image',
    'bin/start-on-host',
    'bin/make-host-namespace',
    'native',
    'src',
    'docs',
    'proto',
  ],
  ...['package.json', 'package-lock.json', '.npmrc', 'README.md', 'ARCHITECTURE.md', 'CHANGELOG.md'],
  ...['CONTRIBUTING.md', 'LICENSE'],
]
const isTest = (path: string) => /(?:\.test|-suite|-fixture|\/suite\/[^/]*)\.ts$/.test(path)
/** Warren uses only the program of its pinned Node. */
const isUnusedPart = (path: string) =>
  /node_modules\/node-linux-\w+\/(?:include|share|lib|CHANGELOG)/.test(path)
/** The folder in which `npm start` looks for the packages of the base template before it downloads them. */
const shippedPackages = 'packages'

type Release = { archive: string; checksum: string; sbom: string; version: string }

export async function makeRelease(outFolder: string): Promise<Release> {
  const { version } = JSON.parse(await readFile(join(projectFolder, 'package.json'), 'utf8')) as {
    version: string
  }
  const name = `warren-${version}`
  const work = mkdtempSync(join(tmpdir(), 'warren-release-'))
  try {
    const folder = join(work, name)
    const lock = JSON.parse(await readFile(join(projectFolder, 'package-lock.json'), 'utf8')) as LockFile
    const packages = releasedPackages(lock, (path) => existsSync(join(projectFolder, path)))
    copyFiles(folder, packages)
    await packNodePackages(join(folder, shippedPackages))
    await writeFile(join(folder, 'warren.service'), systemdUnit('/opt/warren'))
    const when = await commitDate()
    mkdirSync(outFolder, { recursive: true })
    const archive = join(outFolder, `${name}-${process.arch}.tar.gz`)
    await pack(work, name, archive, when)
    const checksum = `${archive}.sha256`
    await writeFile(checksum, `${await sha256(archive)}  ${basename(archive)}\n`)
    const sbom = archive.replace(/\.tar\.gz$/, '.sbom.json')
    await writeFile(sbom, `${JSON.stringify(bom(version, when, packages), null, 2)}\n`)
    return { archive, checksum, sbom, version }
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

function copyFiles(folder: string, packages: readonly ReleasedPackage[]): void {
  mkdirSync(folder, { recursive: true })
  for (const path of shipped) {
    const source = join(projectFolder, path)
    cpSync(source, join(folder, path), { recursive: true, filter: (from) => !isTest(from) })
  }
  for (const { path } of packages) {
    const source = join(projectFolder, path)
    // Nested packages are listed separately.
    const filter = (from: string) =>
      !isUnusedPart(from) && !from.slice(source.length).includes('/node_modules')
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    cpSync(source, join(folder, path), { recursive: true, filter, verbatimSymlinks: true })
  }
  // bin/install-packages takes this file as a sign that nothing is missing.
  const done = join(folder, 'node_modules/.package-lock.json')
  cpSync(join(projectFolder, 'package-lock.json'), done)
  chmodSync(folder, 0o755)
  utimesSync(join(folder, 'package-lock.json'), 0, 0)
}

/**
 * npm and yarn for the base template: their checksums are pinned, and a machine without npm cannot fetch
 * them.
 */
async function packNodePackages(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true })
  for (const { name, version } of nodePackages) {
    await runCommand('npm', ['pack', '--silent', `${name}@${version}`], { cwd: folder })
  }
}

async function pack(work: string, name: string, archive: string, when: string): Promise<void> {
  const same = ['--sort=name', `--mtime=${when}`, '--owner=0', '--group=0', '--numeric-owner', '--format=gnu']
  await runCommand('tar', [...same, '--use-compress-program=gzip -n -6', '-cf', archive, '-C', work, name])
}

/** The date of the commit, so that the archive does not depend on the time of the build. */
async function commitDate(): Promise<string> {
  const { stdout } = await runCommand('git', ['-C', projectFolder, 'log', '-1', '--format=%cI'])
  return stdout.trim()
}

async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(file)) hash.update(chunk)
  return hash.digest('hex')
}

if (import.meta.main) {
  const { archive, checksum, sbom } = await makeRelease(join(projectFolder, 'dist'))
  process.stdout.write(`${archive}\n${checksum}\n${sbom}\n`)
}
