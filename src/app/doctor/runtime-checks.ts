/** Checks whether the system's programs are installed, and whether each runtime really starts something. */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findPlatformChoice } from '../../drivers/oci/machine/platform.ts'
import { openCgroups } from '../../drivers/oci/process/cgroups.ts'
import { candidatePlatforms } from '../../drivers/oci/runtime/platforms.ts'
import { errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import type { Config } from '../config.ts'
import { dataPaths } from '../data-folder.ts'
import { findOlderRunsc, findRunsc } from '../setup/gvisor.ts'
import { findSystemProgram } from '../setup/programs.ts'
import { missingNeeds, type Need, systemNeeds } from '../setup/system-packages.ts'
import { type Finding, fail, type MachineCheck, ok, warn } from './finding.ts'

const startWithinMs = 20_000

export function judgePrograms(missing: readonly Need[], hasApt: boolean): Finding {
  if (missing.length === 0) return ok('all there')
  const packages = missing.map((need) => need.package).join(' ')
  if (hasApt) return warn(`missing: ${packages}`, '`npm start` installs them with apt-get.')
  return fail(
    `missing: ${missing.map((need) => need.file).join(', ')}`,
    'Install them; there is no apt-get here.',
  )
}

/** One static program in an otherwise empty root, limited, in its own namespaces. */
const spec = (id: string) => ({
  ociVersion: '1.0.2',
  process: { user: { uid: 0, gid: 0 }, args: ['/tini', '--version'], cwd: '/', env: ['PATH=/'] },
  root: { path: 'root', readonly: true },
  mounts: [{ destination: '/proc', type: 'proc', source: 'proc' }],
  linux: {
    cgroupsPath: `/${id}`,
    resources: { memory: { limit: 256 * 1024 * 1024 }, pids: { limit: 64 } },
    namespaces: ['pid', 'mount', 'ipc', 'uts', 'network'].map((type) => ({ type })),
  },
})

/**
 * Rejects with the runtime's own message. Leaves nothing behind, even if the runtime was cut off half-way.
 */
export async function startSomething(runtime: string, flags: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'warren-doctor-'))
  const id = `warren-doctor-${process.pid}`
  const common = [...flags, '--root', join(folder, 'state')]
  try {
    mkdirSync(join(folder, 'root/proc'), { recursive: true })
    copyFileSync(findSystemProgram('tini-static') ?? '', join(folder, 'root/tini'))
    writeFileSync(join(folder, 'config.json'), JSON.stringify(spec(id)))
    await runCommand(runtime, [...common, 'run', '--bundle', folder, id], { timeoutMs: startWithinMs })
  } finally {
    await runCommand(runtime, [...common, 'delete', '--force', id]).catch(() => {})
    await endGroup(`/${id}`)
    // gVisor keeps a network namespace mounted there for the next sandbox.
    await runCommand('umount', ['--lazy', join(folder, 'state/null-netns')]).catch(() => {})
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Missing controllers are ignored here: the check of cgroups reports them. */
async function endGroup(group: string): Promise<void> {
  try {
    await openCgroups().end(group)
  } catch {
    return
  }
}

const firstLine = (text: string): string => text.trim().split('\n')[0] ?? ''
const lastWords = (error: unknown): string => errorText(error).trim().split('\n').slice(-1)[0]!.slice(-300)

async function tryRunc(): Promise<Finding> {
  const runc = findSystemProgram('runc')
  if (!runc)
    return warn('not installed: sandboxes cannot be containers', '`npm start` installs it with apt-get.')
  const version = firstLine((await runCommand(runc, ['--version'])).stdout)
  try {
    await startSomething(runc, [])
    return ok(`${version} starts containers; a pause keeps their memory until the machine goes down`)
  } catch (error) {
    return fail(
      `${version} does not start a container: ${lastWords(error)}`,
      'See the lines above; update runc.',
    )
  }
}

async function tryGvisor(config: Config): Promise<Finding> {
  if (config.isolation === 'container') return ok('not wanted: WARREN_ISOLATION is container')
  const refuse = config.isolation === 'gvisor' ? fail : warn
  const { runtimes } = dataPaths(config.dataDir)
  const own = findRunsc(runtimes) ?? findRunsc(config.cacheDir)
  const runsc = own ?? findOlderRunsc(runtimes)
  if (!runsc) {
    return warn(
      "not installed: sandboxes are plain containers, which isolate less: all of them share this machine's kernel",
      '`npm start` builds it. It needs network once: for Go, unless that is here, and for the sources of gVisor.',
    )
  }
  const { platforms, why } = await platformsToTry(config, runsc)
  const refusals: string[] = []
  for (const platform of platforms) {
    try {
      await startSomething(runsc, ['--network=none', `--platform=${platform}`])
      const works = `${runsc.split('/').at(-2)} works with the platform ${platform}, ${why}; a pause keeps memory, over a reboot too`
      if (own) return ok(works)
      return warn(
        `${works}; it is the build of an earlier Warren`,
        'Start Warren with network to get its own.',
      )
    } catch (error) {
      refusals.push(`${platform}: ${lastWords(error)}`)
    }
  }
  return refuse(
    `does not work here: ${refusals.join('; ')}. Plain containers isolate less`,
    'WARREN_ISOLATION=container accepts plain containers.',
  )
}

/** The platform for new sandboxes, or those that the first start will measure. */
async function platformsToTry(
  { gvisorPlatform, dataDir }: Config,
  runsc: string,
): Promise<{ platforms: readonly string[]; why: string }> {
  if (gvisorPlatform !== 'auto') {
    return { platforms: [gvisorPlatform], why: 'as WARREN_GVISOR_PLATFORM says' }
  }
  const choice = await findPlatformChoice(dataDir, runsc)
  if (choice) return { platforms: [choice.platform], why: `the cheapest here (${choice.why})` }
  return { platforms: candidatePlatforms(), why: 'and the first start measures which one is best' }
}

export const runtimeChecks: readonly MachineCheck[] = [
  {
    name: 'programs',
    look: () => judgePrograms(missingNeeds(systemNeeds), Boolean(findSystemProgram('apt-get'))),
  },
  { name: 'runc', look: tryRunc },
  { name: 'gVisor', look: tryGvisor },
]
