/**
 * Which way gVisor catches system calls here. `systrap` is meant to be the better one, but on some virtual
 * machines it is slower than `ptrace` and burns CPU while nothing happens. Measured once per machine and
 * runtime: what the agent costs to start and then to do nothing.
 */
import { mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { release } from 'node:os'
import { join } from 'node:path'
import { closedToAll, openRules } from '../../core/egress.ts'
import { AppError, errorText } from '../../lib/app-error.ts'
import { delay } from '../../lib/clock.ts'
import type { OciContext } from './context.ts'
import { dismantle } from './dismantle.ts'
import { startSandbox } from './launch.ts'
import { prepareRoot } from './prepare-root.ts'

const platforms = ['systrap', 'ptrace'] as const
type SyscallPlatform = (typeof platforms)[number]

/** CPU time of starting the agent, and of one idle second after that. */
type Trial = { startCpuMs: number; idleCpuMs: number } | { failure: string }
type Choice = { machine: string; platform: SyscallPlatform }

const settleMs = 1000
const watchMs = 1000
/** Sandboxes are mostly idle: each start is weighed against this many idle seconds. */
const idleSeconds = 20

const silent = { ...openRules, deny: [closedToAll] }

export async function choosePlatform(context: OciContext): Promise<SyscallPlatform> {
  const machine = await describeMachine(context.runtime.binary)
  const known = await readChoice(context.layout.platformChoice)
  if (known?.machine === machine) return known.platform
  const root = await emptyRoot(context)
  const [systrap, ptrace] = await Promise.all(
    platforms.map((platform) => tryPlatform(context, platform, root)),
  )
  const platform = better(systrap!, ptrace!)
  const file = context.layout.platformChoice
  await writeFile(`${file}.new`, JSON.stringify({ machine, platform } satisfies Choice))
  await rename(`${file}.new`, file)
  return platform
}

export function better(systrap: Trial, ptrace: Trial): SyscallPlatform {
  if ('failure' in systrap && 'failure' in ptrace) {
    throw new AppError('unavailable', `gVisor cannot start a sandbox on this machine: ${systrap.failure}`)
  }
  if ('failure' in systrap) return 'ptrace'
  if ('failure' in ptrace) return 'systrap'
  return cost(systrap) <= cost(ptrace) ? 'systrap' : 'ptrace'
}

function cost({ startCpuMs, idleCpuMs }: { startCpuMs: number; idleCpuMs: number }): number {
  return startCpuMs + idleSeconds * idleCpuMs
}

async function tryPlatform(
  context: OciContext,
  platform: SyscallPlatform,
  rootFolder: string,
): Promise<Trial> {
  const sandboxID = `trial-${platform}`
  const trial = { ...context, runtime: { ...context.runtime, platform } }
  try {
    const sizes = { cpuCount: 1, memoryMB: 512, diskMB: 64 }
    await dismantle(context, sandboxID)
    await startSandbox(trial, { sandboxID, runID: 'trial', rootFolder, ...sizes, egress: silent })
    const cgroup = context.layout.cgroup(sandboxID)
    await delay(settleMs)
    const before = await context.cgroups.use(cgroup)
    await delay(watchMs)
    const after = await context.cgroups.use(cgroup)
    return { startCpuMs: before.cpuTimeMs, idleCpuMs: after.cpuTimeMs - before.cpuTimeMs }
  } catch (error) {
    return { failure: errorText(error) }
  } finally {
    await dismantle(context, sandboxID)
  }
}

/** The agent brings all it needs, so it runs in a root with nothing in it. */
async function emptyRoot(context: OciContext): Promise<string> {
  const folder = join(context.layout.disks, 'empty-root')
  await mkdir(folder, { recursive: true })
  await prepareRoot(folder, context.uidBase)
  return folder
}

async function describeMachine(binary: string): Promise<string> {
  const { size, mtimeMs } = await stat(binary)
  return `${release()} ${binary} ${size} ${Math.round(mtimeMs)}`
}

async function readChoice(file: string): Promise<Choice | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Choice
  } catch {
    // It is only remembered to save time: the choice is made again.
    return undefined
  }
}
