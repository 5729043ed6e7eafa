/** The folder that a release is: sources without tests, packages, Node, and the bundle that a start runs. */
import { cpSync, utimesSync } from 'node:fs'
import { chmod, readFile, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runCommand } from '../../lib/run-command.ts'
import { systemdUnit } from '../commands/systemd-command.ts'
import { projectFolder } from '../project/project-folder.ts'
import { manifestFile, type ReleaseManifest } from './manifest.ts'
import type { ReleasedPackage } from './sbom.ts'

/** The shipped files besides the packages. */
const shipped = [
  ...['bin/node', 'bin/warren', 'bin/bundle', 'bin/install-packages', 'bin/container-image'],
  ...['bin/start-on-host', 'bin/make-host-namespace', 'bin/dns-update', 'native', 'src', 'docs', 'proto'],
  ...['package.json', 'package-lock.json', '.npmrc', 'README.md', 'ARCHITECTURE.md', 'CHANGELOG.md'],
  ...['CONTRIBUTING.md', 'LICENSE'],
]
const isTest = (path: string) => /(?:\.test|-suite|-fixture|\/suite\/[^/]*)\.ts$/.test(path)
/** Warren uses only the program of its pinned Node. */
const isUnusedPart = (path: string) =>
  /node_modules\/node-linux-\w+\/(?:include|share|lib|CHANGELOG)/.test(path)

export async function fillReleaseFolder(
  folder: string,
  packages: readonly ReleasedPackage[],
  manifest: ReleaseManifest,
): Promise<void> {
  copyFiles(folder, packages)
  await chmod(folder, 0o755)
  await writeVersion(folder, manifest.version)
  await writeFile(join(folder, 'warren.service'), systemdUnit('/opt/warren'))
  await makeBundle(folder, manifest)
  await writeFile(join(folder, manifestFile), `${JSON.stringify(manifest, null, 2)}\n`)
}

function copyFiles(folder: string, packages: readonly ReleasedPackage[]): void {
  for (const path of shipped) {
    const source = join(projectFolder, path)
    cpSync(source, join(folder, path), { recursive: true, filter: (from) => !isTest(from) })
  }
  for (const { path } of packages) {
    const source = join(projectFolder, path)
    // Nested packages are listed separately.
    const filter = (from: string) =>
      !isUnusedPart(from) && !from.slice(source.length).includes('/node_modules')
    cpSync(source, join(folder, path), { recursive: true, filter, verbatimSymlinks: true })
  }
  // bin/install-packages takes this file as a sign that nothing is missing.
  cpSync(join(projectFolder, 'package-lock.json'), join(folder, 'node_modules/.package-lock.json'))
  utimesSync(join(folder, 'package-lock.json'), 0, 0)
}

async function writeVersion(folder: string, version: string): Promise<void> {
  const path = join(folder, 'package.json')
  const text = await readFile(path, 'utf8')
  await writeFile(path, text.replace(/"version": "[^"]+"/, `"version": "${version}"`))
}

/** Its folder is named by what it is made of: an unpacked newer release leaves that of a running server alone. */
async function makeBundle(folder: string, manifest: ReleaseManifest): Promise<void> {
  const bundles = join(folder, '.cache/bundle')
  // The bundle contains paths as seen from the current folder.
  await runCommand(join(folder, 'bin/node'), ['src/app/bundle/make-bundle.ts'], { cwd: folder })
  const name = `${manifest.version}-${manifest.commit.slice(0, 12)}`
  await rename(await realpath(join(bundles, 'current')), join(bundles, name))
  await rm(join(bundles, 'current'))
  await symlink(name, join(bundles, 'current'))
}
