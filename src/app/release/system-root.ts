/**
 * A plain Debian root with the programs that Warren calls: the container image is made of it, and the archive takes
 * the programs from it that a bare machine lacks.
 */
import { createHash } from 'node:crypto'
import { cp, mkdir, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { withoutPasswords } from '../setup/apt.ts'
import { insideRoot } from '../setup/complete-root.ts'
import { debootstrap, inRoot } from '../setup/debian-root.ts'
import { containerNeed, systemNeeds } from '../setup/system-packages.ts'

const debianRelease = 'bookworm'
/** bin/start-on-host runs this program on a host outside of the image, without the image's libraries. */
const programOnHosts = 'busybox-static'
/** What a bare Debian or Ubuntu machine lacks. A program runs with the libraries beside it, on any distribution. */
const packedPrograms = [
  'nft',
  'ip',
  'ss',
  'mkfs.ext4',
  'e2fsck',
  'resize2fs',
  'losetup',
  'tini-static',
  'ldd',
]
const programFolders = ['usr/sbin', 'usr/bin', 'sbin', 'bin']

const systemPackages = [...[...systemNeeds, containerNeed].map((need) => need.package), programOnHosts]
/** Changes with what the root is made of. */
export const systemRecipe = createHash('sha256')
  .update(JSON.stringify([debianRelease, systemPackages]))
  .digest('hex')
  .slice(0, 12)

export async function makeSystemRoot(root: string): Promise<void> {
  await mkdir(root, { recursive: true })
  const { main } = await debootstrap(root, debianRelease, () => {})
  await runInRoot(
    root,
    `apt-get update -q && apt-get install -y -q --no-install-recommends ca-certificates ${systemPackages.join(' ')} && apt-get clean && rm -rf /var/lib/apt/lists/*`,
  )
  // A password belongs to this machine, not to everybody who has the image.
  await writeFile(join(root, 'etc/apt/sources.list'), `deb ${withoutPasswords(main)} ${debianRelease} main\n`)
}

async function runInRoot(root: string, script: string): Promise<string> {
  const [program, ...args] = [...inRoot(root), 'sh', '-euc', script]
  return (await runCommand(program!, args)).stdout
}

export type DebianPackage = { name: string; version: string; architecture: string; source: string }

export async function packagesIn(root: string): Promise<DebianPackage[]> {
  const fields = ['Package', 'Version', 'Architecture', 'source:Package']
    .map((name) => `\${${name}}`)
    .join('\\t')
  const said = await runInRoot(root, `dpkg-query -W -f '${fields}\\n'`)
  return said
    .trim()
    .split('\n')
    .map((line) => {
      const [name, version, architecture, source] = line.split('\t') as [string, string, string, string]
      return { name, version, architecture, source }
    })
}

/**
 * Fills the folder with the programs, the libraries that they need and the loader of these: `bin/NAME` starts one. The
 * licences are those of their packages.
 */
export async function packPrograms(root: string, folder: string): Promise<void> {
  const [bin, lib, real] = [join(folder, 'bin'), join(folder, 'lib'), join(folder, 'real')]
  for (const one of [bin, lib, real]) await mkdir(one, { recursive: true })
  const found = await Promise.all(packedPrograms.map((name) => findIn(root, name)))
  const used = new Set(found)
  for (const [index, name] of packedPrograms.entries()) {
    const path = found[index]!
    const libraries = await librariesOf(root, path)
    const loader = libraries.find((one) => /\/ld-linux[^/]*$/.test(one))
    for (const library of libraries) {
      const source = await insideRoot(root, library)
      used.add(source.slice(root.length))
      await cp(source, join(lib, basename(library)))
    }
    if (loader === undefined) {
      // A script, or a static program.
      await cp(await insideRoot(root, path), join(bin, name))
      continue
    }
    await cp(await insideRoot(root, path), join(real, name))
    await writeFile(join(bin, name), launcher(basename(loader), name), { mode: 0o755 })
  }
  await copyLicences(root, [...used], join(folder, 'licences'))
}

const launcher = (loader: string, name: string): string => `#!/bin/sh
here=$(dirname "$(readlink -f "$0")")/..
exec "$here/lib/${loader}" --library-path "$here/lib" --argv0 ${name} "$here/real/${name}" "$@"
`

async function findIn(root: string, name: string): Promise<string> {
  for (const folder of programFolders) {
    if ((await readdir(join(root, folder))).includes(name)) return `/${folder}/${name}`
  }
  throw new AppError('internal', `${name} is not in the Debian root that the release takes it from.`)
}

async function librariesOf(root: string, path: string): Promise<string[]> {
  const said = await runInRoot(root, `ldd '${path}' 2>/dev/null || true`)
  return [...said.matchAll(/(?:=>\s*)?(\/\S+)\s+\(0x/g)].map((match) => match[1]!)
}

/** Of the packages that the files belong to. */
async function copyLicences(root: string, files: readonly string[], folder: string): Promise<void> {
  await mkdir(folder)
  const patterns = [...new Set(files.map((path) => `'*/${basename(path)}'`))].join(' ')
  const owners = await runInRoot(root, `dpkg-query -S ${patterns} 2>/dev/null || true`)
  const names = new Set(
    [...owners.matchAll(/^([a-z0-9.+-]+)(?::\w+)?(?:,.*)?: /gm)].map((match) => match[1]!),
  )
  for (const name of [...names].sort()) {
    const source = await realpath(join(root, 'usr/share/doc', name, 'copyright')).catch(() => undefined)
    if (source) await writeFile(join(folder, name), await readFile(source))
  }
}

/** What differs between two roots of the same packages: caches, logs and names of this build. */
export async function removeTracesOfBuild(root: string, day: number): Promise<void> {
  for (const path of [
    'var/cache/ldconfig/aux-cache',
    'var/cache/apt/pkgcache.bin',
    'var/cache/apt/srcpkgcache.bin',
  ])
    await rm(join(root, path), { force: true })
  await runCommand('sh', [
    '-euc',
    'rm -rf "$1"/var/log/* "$1"/tmp/* "$1"/debootstrap; : > "$1/etc/machine-id"',
    'sh',
    root,
  ])
  for (const name of ['shadow', 'shadow-']) {
    const path = join(root, 'etc', name)
    const text = await readFile(path, 'utf8').catch(() => undefined)
    // The third field is the day on which the password was last changed: that of the build.
    if (text !== undefined) await writeFile(path, text.replace(/^([^:]*:[^:]*:)\d+:/gm, `$1${day}:`))
  }
}
