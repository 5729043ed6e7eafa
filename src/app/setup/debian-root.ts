/**
 * Makes a Debian root with the packages of the recipe, in phases: a start that is killed leaves a root that the next one
 * finishes.
 */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { chmod, copyFile, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { AppError, errorText } from '../../lib/app-error.ts'
import { aboutProxy } from '../../lib/proxy-variables.ts'
import { runCommand } from '../../lib/run-command.ts'
import {
  complaints,
  type DebianMirrors,
  hostAcquireOptions,
  hostMirrors,
  plainEnvironment,
  runAptGet,
  withoutPasswords,
} from './apt.ts'
import * as recipe from './base-recipe.ts'
import { type Advance, eachLine } from './progress.ts'
import { findShipped, shippedPackages } from './shipped.ts'

/** debootstrap's lines for the smallest Debian; only the bar depends on it. */
const debootstrapLines = 420

/** A step of the making, with the share of the time at which it ends. */
type Phase = { name: string; until: number; run(advance: Advance): Promise<void> }

/** Beside the root: which phases are done, and on which boot of the machine. A crash of the machine may have lost files. */
type Done = { boot: string; phases: string[] }

const doneFile = (root: string): string => `${root}.done`
const profileBefore = (root: string): string => `${root}.profile`
const bootID = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()

/** Whether a root that a killed start left can be finished: it is past its first phase, and made since the machine started. */
export function canFinish(root: string): boolean {
  const done = readDone(root)
  return done !== undefined && done.boot === bootID() && done.phases.length > 0
}

function readDone(root: string): Done | undefined {
  try {
    return JSON.parse(readFileSync(doneFile(root), 'utf8')) as Done
  } catch {
    return undefined
  }
}

/** Makes the root, or finishes one that a killed start has begun. */
export async function buildRoot(root: string, wanted: recipe.BaseRecipe, advance: Advance): Promise<void> {
  const begun = canFinish(root) ? readDone(root)!.phases : []
  const done: string[] = [...begun]
  let from = 0
  for (const { name, until, run } of phasesOf(root, wanted)) {
    const start = from
    if (!begun.includes(name)) {
      if (begun.length > 0 && done.length === begun.length) await runInside(root, ['sh', '-c', mendScript])
      await run((share, detail) => advance(start + share * (until - start), detail))
      done.push(name)
      writeFileSync(doneFile(root), JSON.stringify({ boot: bootID(), phases: done } satisfies Done))
    }
    from = until
    advance(from)
  }
  for (const path of [doneFile(root), profileBefore(root)]) await rm(path, { force: true })
}

/**
 * Mends what dpkg was doing when it was killed; apt then installs the rest. A package that was being unpacked can only be
 * removed: its state has an R in the third place.
 */
const mendScript = `
dpkg-query -W -f '\${db:Status-Abbrev}\${binary:Package}\\n' | sed -n 's/^..R//p' |
  xargs -r dpkg --remove --force-remove-reinstreq --force-depends
dpkg --configure -a --force-confdef
apt-get -y -q --fix-broken install
true`

const sourcesFile = '/etc/apt/sources.list.d/debian.sources'

function phasesOf(root: string, wanted: recipe.BaseRecipe): Phase[] {
  const apt = async (advance: Advance, ...args: string[]) => {
    const options = [...(await hostAcquireOptions()), '-o', 'Dpkg::Options::=--force-unsafe-io']
    await runAptGet(advance, [...options, ...args], inRoot(root))
  }
  const install = (advance: Advance, ...packages: readonly string[]) =>
    apt(advance, 'install', '--no-install-recommends', ...packages)
  return [
    { name: 'debootstrap', until: 0.25, run: (advance) => makeSmallest(root, wanted.release, advance) },
    { name: 'lists', until: 0.28, run: (advance) => apt(advance, 'update') },
    {
      name: 'upgrade',
      until: 0.3,
      run: (advance) => apt(advance, 'dist-upgrade', '--no-install-recommends'),
    },
    { name: 'packages', until: 0.92, run: (advance) => install(advance, ...recipe.basePackages) },
    {
      name: 'Node',
      until: 0.97,
      run: async (advance) => {
        advance(0, 'adding Node')
        await addNode(root)
      },
    },
    { name: 'finish', until: 1, run: (advance) => finish(root, advance) },
  ]
}

/** The script of the recipe may run only once on a root, so what a killed start did of it is undone first. */
async function finish(root: string, advance: Advance): Promise<void> {
  advance(0, 'finishing')
  const [profile, before] = [join(root, 'etc/profile'), profileBefore(root)]
  if (existsSync(before)) {
    await copyFile(before, profile)
    const undo = 'userdel user; groupdel user; rm -rf /home/user /code; true'
    await runInside(root, ['sh', '-c', undo])
  } else {
    await copyFile(profile, `${before}.new`)
    await rename(`${before}.new`, before)
  }
  const sources = join(root, sourcesFile)
  // A password belongs to this machine, not to every sandbox.
  await writeFile(sources, withoutPasswords(await readFile(sources, 'utf8')))
  for (const file of recipe.filesAfter) await writeRootFile(root, file)
  await runInside(root, ['sh', '-euc', recipe.finishScript])
}

async function runInside(root: string, command: readonly string[]): Promise<void> {
  const [program, ...args] = [...inRoot(root), ...command]
  await runCommand(program!, args)
}

async function makeSmallest(root: string, release: string, advance: Advance): Promise<void> {
  const mirrors = await debootstrap(root, release, advance)
  for (const file of recipe.filesBefore) await writeRootFile(root, file)
  await rm(join(root, 'etc/apt/sources.list'), { force: true })
  await writeRootFile(root, { path: sourcesFile, text: recipe.aptSources(release, mirrors) })
  await copyFile('/etc/resolv.conf', join(root, 'etc/resolv.conf'))
}

/**
 * Everything that runs has its own mounts and its own processes, and ends with this process however that
 * ends: nothing is left on the machine but the folder.
 */
const alone = ['setpriv', '--pdeathsig', 'KILL', 'unshare', '--mount', '--pid', '--fork', '--kill-child']
/**
 * The first process of the namespace. It must not be apt, which changes its user for a moment: the kernel then forgets the
 * signal at the end of the parent, and apt would go on after a kill of this process.
 */
const first = ['sh', '-c', '"$@"; exit $?', 'sh']

export function inRoot(root: string): string[] {
  return [...alone, `--mount-proc=${root}/proc`, ...first, 'chroot', root, ...plainEnvironment]
}

export async function debootstrap(root: string, release: string, advance: Advance): Promise<DebianMirrors> {
  const found = hostMirrors()
  let seen = 0
  const onLine = (line: string) => {
    seen += 1
    advance(Math.min(0.99, seen / debootstrapLines), line.replace(/^I: /, '').toLowerCase())
  }
  const args = ['debootstrap', '--variant=minbase', release, root, ...(found ? [found.main] : [])]
  const [program, ...before] = [...alone, '--mount-proc', ...first, ...plainEnvironment]
  try {
    await runCommand(program!, [...before, ...args], { onOutput: eachLine(onLine) })
  } catch (error) {
    const said = complaints(errorText(error))
    throw new AppError(
      'unavailable',
      `debootstrap could not make a Debian ${release} root: ${said}${aboutProxy('http')}`,
      {
        cause: error,
      },
    )
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
  await rm(download, { recursive: true, force: true })
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
    await rm(target, { recursive: true, force: true })
    await mkdir(target, { recursive: true })
    const extract = ['-xf', archive, '-C', target, '--strip-components=1', '--no-same-owner']
    await runCommand('tar', extract)
    for (const [program, file] of Object.entries(programs)) {
      await chmod(join(target, file), 0o755)
      await rm(join(bin, program), { force: true })
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
