/**
 * Builds the folder that every sandbox sees read-only: the agent, its Node, and everything else they need,
 * with their own loader and libraries, so that they run in any image and trust none of the image's files. A
 * kit is named after its contents and never changed: a running sandbox keeps the one it started with.
 */
import { access, chmod, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { nodeFlags } from '../../agent/node-flags.ts'
import { AppError } from '../../lib/app-error.ts'
import { randomHex } from '../../lib/ids.ts'
import { requireAddonFile } from '../../lib/native.ts'
import { runCommand } from '../../lib/run-command.ts'
import { bundleSources } from '../project/bundle-sources.ts'
import { sourcesFolder } from '../project/project-folder.ts'
import { findSystemProgram } from '../setup/programs.ts'
import { kitNameOf } from './kit-name.ts'
import { replaceForeignPaths } from './kit-paths.ts'

type AgentKitOptions = {
  /** The folder of the kits, one subfolder each. */
  folder: string
  nodeBinary: string
  /** The path at which the driver mounts the kit inside a sandbox. */
  mountedAt?: string
}

export type AgentKit = {
  folder: string
  /** The command of pid 1 of the sandbox. */
  command: string[]
  /** Like `command`, but started from a file that no user inside may read. */
  unreadableCommand: string[]
  env: Record<string, string>
  /**
   * Sets the host name given as its last argument: a sandbox that is started from another's memory has that
   * one's name.
   */
  setHostname: string[]
  /** Makes system calls and processes, then ends. */
  sampleWork: string[]
}

const agentSources = join(sourcesFolder, 'agent')
const layoutVersion = 7
/**
 * Somebody who could trace init could stop it, end the agent and take its place; otherwise the sandbox ends
 * with its agent. Linux lets nobody trace a program whose file they may not read.
 */
const unreadableInit = 'sealed-init'
const rehearsalTimeoutMs = 30_000

export async function buildAgentKit({
  folder,
  nodeBinary,
  mountedAt = '/.warren',
}: AgentKitOptions): Promise<AgentKit> {
  const init = requireProgram(['tini-static', 'catatonit'], 'tini')
  const files = new Map<string, string>([
    ['node', nodeBinary],
    ['init', init],
    [unreadableInit, init],
  ])
  files.set('hostname', requireProgram(['hostname'], 'hostname'))
  files.set('native.node', requireAddonFile('Sandboxes cannot start commands'))
  const libraries = await librariesOf(new Set(files.values()))
  for (const library of libraries) files.set(`lib/${basename(library)}`, library)
  const loader = basename(libraries.find((library) => /\/ld-linux[^/]*\.so\.\d+$/.test(library)) ?? '')
  if (loader === '')
    throw new AppError(
      'unavailable',
      `${nodeBinary} does not name a loader: it must be a glibc build of Node`,
    )

  const run = (program: string) => [
    join(mountedAt, 'lib', loader),
    '--inhibit-cache',
    '--library-path',
    join(mountedAt, 'lib'),
    join(mountedAt, program),
  ]
  const bundle = await bundleAgent(join(mountedAt, 'native.node'))
  const kitFolder = join(
    folder,
    await kitNameOf({ texts: [`${layoutVersion}`, ...bundle.values()], files }, `${folder}.name`),
  )
  if (!(await exists(kitFolder))) await writeKit({ kitFolder, bundle, files, loader })
  const agentWords = ['--', ...run('node'), ...nodeFlags, join(mountedAt, 'boot.cjs')]
  return {
    folder: kitFolder,
    command: [join(mountedAt, 'init'), ...agentWords],
    unreadableCommand: [join(mountedAt, unreadableInit), ...agentWords],
    env: agentEnvironment,
    setHostname: run('hostname'),
    sampleWork: [...run('node'), '-e', sampleWork(run('hostname'))],
  }
}

/** About the work of a short build or test: many small system calls, a few processes. */
const sampleWork = ([program, ...args]: string[]): string => `
const { statSync } = require('node:fs'), { spawnSync } = require('node:child_process')
for (let i = 0; i < 4000; i++) { process.ppid; statSync('/') }
for (let i = 0; i < 5; i++) spawnSync(${JSON.stringify(program)}, ${JSON.stringify(args)})`

/**
 * The allocator returns unused memory to the machine instead of holding it for later. It takes 128 KiB at
 * once: with less, a boot asks the kernel 60 times more often, and each first touch costs gVisor a fault. The
 * agent returns the excess when it idles (`idle-memory.ts`).
 */
const agentEnvironment = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_MMAP_THRESHOLD_: '32768',
  MALLOC_TOP_PAD_: '131072',
  MALLOC_TRIM_THRESHOLD_: '131072',
}

/** Names and texts of the files made from our own sources. */
async function bundleAgent(agentAddon: string): Promise<Map<string, string>> {
  return bundleSources(
    {
      agent: join(agentSources, 'main.ts'),
      boot: join(agentSources, 'boot.ts'),
      ssh: join(agentSources, 'ssh/main.ts'),
    },
    // What ssh2 can do without: a library of its own for some ciphers.
    { define: { agentAddon: JSON.stringify(agentAddon) }, external: ['cpu-features', '*.node'] },
  )
}

function requireProgram(names: readonly string[], debianPackage: string): string {
  const found = names.map(findSystemProgram).find((path) => path !== undefined)
  if (found !== undefined) return found
  throw new AppError(
    'unavailable',
    `${names.join(' or ')} is missing on this machine: install the package ${debianPackage} (apt-get install ${debianPackage})`,
  )
}

/** Every library that the programs are linked with, including the loader. A static program has none. */
async function librariesOf(paths: Iterable<string>): Promise<string[]> {
  const found = new Set<string>()
  for (const path of paths) {
    const { stdout } = await runCommand('ldd', [path]).catch(() => ({ stdout: '' }))
    for (const match of stdout.matchAll(/(?:=>\s*)?(\/\S+)\s+\(0x/g)) found.add(match[1]!)
    const missing = /^\s*(\S+) => not found/m.exec(stdout)?.[1]
    if (missing)
      throw new AppError('unavailable', `${path} needs ${missing}, which this machine does not have`)
  }
  return [...found]
}

type WrittenKit = {
  kitFolder: string
  bundle: Map<string, string>
  files: Map<string, string>
  loader: string
}

/** Built beside and renamed, so that a kit is complete or absent; of two concurrent builders one wins. */
async function writeKit({ kitFolder, bundle, files, loader }: WrittenKit): Promise<void> {
  const beside = `${kitFolder}.${randomHex(4)}.new`
  try {
    // The root user of a sandbox is unprivileged on the host: everybody must be able to read and run all of
    // it.
    for (const folder of [dirname(kitFolder), beside, join(beside, 'lib')]) {
      await mkdir(folder, { recursive: true })
      await chmod(folder, 0o755)
    }
    for (const [name, path] of files) {
      const program = await readFile(path)
      replaceForeignPaths(program)
      await writeFile(join(beside, name), program)
      await chmod(join(beside, name), name === unreadableInit ? 0o711 : 0o755)
    }
    for (const [name, text] of bundle) await writeFile(join(beside, name), text)
    await rehearse(beside, loader)
    for (const name of [...bundle.keys(), 'agent.cache']) await chmod(join(beside, name), 0o644)
    await rename(beside, kitFolder).catch(async (error) => {
      if (!(await exists(kitFolder))) throw error
    })
  } finally {
    await rm(beside, { recursive: true, force: true })
  }
}

/** Runs the agent once as a sandbox will, so that the kit contains V8's compiled code. */
async function rehearse(kit: string, loader: string): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'warren-rehearsal-'))
  try {
    const node = ['--inhibit-cache', '--library-path', join(kit, 'lib'), join(kit, 'node'), ...nodeFlags]
    await runCommand(join(kit, 'lib', loader), [...node, join(kit, 'boot.cjs'), 'rehearse', scratch], {
      env: agentEnvironment,
      timeoutMs: rehearsalTimeoutMs,
    })
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
