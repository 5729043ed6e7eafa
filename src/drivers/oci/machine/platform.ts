/**
 * Chooses how gVisor intercepts system calls here: `systrap`, `ptrace`, or `kvm` if the machine has it. The
 * best one differs between machines (inside some virtual ones `kvm` does not start and `systrap` burns CPU
 * while nothing happens), so each is tried once per machine and runtime: the cost of starting the agent, of
 * idling, and of some work.
 */
import { mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { release } from 'node:os'
import { join } from 'node:path'
import { closedToAll, openRules } from '../../../core/ports/egress.ts'
import { AppError, errorText } from '../../../lib/app-error.ts'
import { delay } from '../../../lib/clock.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { prepareRoot } from '../../host/disk/prepare-root.ts'
import { platformChoiceFile } from '../../host/record/layout.ts'
import type { OciContext } from '../context/context.ts'
import { dismantle } from '../lifecycle/dismantle.ts'
import { startSandbox } from '../lifecycle/launch.ts'
import {
  candidatePlatforms,
  hasKvm,
  type PlatformTrial,
  platforms,
  type SyscallPlatform,
} from '../runtime/platforms.ts'
import { execArguments } from '../runtime/runtime-commands.ts'

/** CPU time of starting the agent, of one idle second after that, and of the agent's sample of work. */
type Trial = { startCpuMs: number; idleCpuMs: number; workCpuMs: number } | { failure: string }
type Trials = Partial<Record<SyscallPlatform, Trial>>
type PlatformChoice = { platform: SyscallPlatform; why: string }
type LocalChoice = PlatformChoice & { machine: string }

const settleMs = 1000
const watchMs = 1000
/**
 * On a busy machine a start has not ended after the settling time: the quietest of this many seconds counts.
 */
const watches = 4
/** A second with no more than this is quiet, and no further one is measured. */
const quietMs = 2
/** A platform that takes longer does not work here. */
const trialLimitMs = 20_000
/**
 * Sandboxes are mostly idle: each start, and the work after it, is weighed against this many idle seconds.
 */
const idleSeconds = 20
/** Increased when the measurement or its weights change, so that every machine measures again. */
const trialVersion = 4
/**
 * On a busy machine the same trial takes half as much again: only a cost below this share of another is
 * clearly less.
 */
const clearlyLess = 2 / 3

const silent = { ...openRules, deny: [closedToAll] }

export async function choosePlatform(context: OciContext): Promise<SyscallPlatform> {
  const { data } = context.layout
  const known = await findPlatformChoice(data, context.runtime.binary)
  if (known) return known.platform
  const { trial } = context
  if (!trial)
    throw new AppError(
      'internal',
      'The driver got neither a platform of gVisor nor a program to choose one with.',
    )
  const root = await emptyRoot(context)
  const tried = await Promise.all(
    candidatePlatforms().map(async (platform) => [
      platform,
      await tryPlatform(context, trial, platform, root),
    ]),
  )
  const choice = choose(Object.fromEntries(tried) as Trials)
  const file = platformChoiceFile(data)
  const machine = await describeMachine(context.runtime.binary)
  await writeFile(`${file}.new`, JSON.stringify({ machine, ...choice } satisfies LocalChoice))
  await rename(`${file}.new`, file)
  return choice.platform
}

/** The measured choice for this runtime on this machine; undefined if there is none yet. */
export async function findPlatformChoice(
  dataFolder: string,
  binary: string,
): Promise<PlatformChoice | undefined> {
  const known = await readChoice(platformChoiceFile(dataFolder))
  return known?.machine === (await describeMachine(binary)) ? known : undefined
}

export function choose(trials: Trials): PlatformChoice {
  const tried = platforms.flatMap((platform) => (trials[platform] ? [{ platform, ...trials[platform] }] : []))
  const usable = tried.filter((trial) => !('failure' in trial))
  const why = tried.map((trial) => `${trial.platform}: ${describeTrial(trial)}`).join('; ')
  const [first] = usable
  if (!first) throw new AppError('unavailable', `gVisor cannot start a sandbox on this machine: ${why}`)
  const best = usable.reduce((a, b) => (costOf(b) < costOf(a) * clearlyLess ? b : a), first)
  return { platform: best.platform, why }
}

function costOf(trial: Trial): number {
  if ('failure' in trial) return Number.POSITIVE_INFINITY
  return trial.startCpuMs + trial.workCpuMs + idleSeconds * trial.idleCpuMs
}

function describeTrial(trial: Trial): string {
  if ('failure' in trial) return `does not work (${trial.failure})`
  const [start, work, idle] = [trial.startCpuMs, trial.workCpuMs, trial.idleCpuMs].map(Math.round)
  return `${start} ms of CPU to start, ${work} for system calls and processes, ${idle} per idle second`
}

async function tryPlatform(
  context: OciContext,
  { agent, sampleWork }: PlatformTrial,
  platform: SyscallPlatform,
  rootFolder: string,
): Promise<Trial> {
  const sandboxID = `trial-${platform}`
  const trial = { ...context, runtime: { ...context.runtime, platform } }
  try {
    const spec = { sandboxID, runID: 'trial', rootFolder, agent, cpuCount: 1, memoryMB: 512, diskMB: 64 }
    await dismantle(context, sandboxID)
    const record = await startSandbox(trial, { ...spec, egress: silent }, AbortSignal.timeout(trialLimitMs))
    const cpuTimeMs = async () => (await context.cgroups.use(context.layout.cgroup(sandboxID))).cpuTimeMs
    await delay(settleMs)
    const startCpuMs = await cpuTimeMs()
    const idleCpuMs = await quietestSecond(cpuTimeMs)
    const watched = await cpuTimeMs()
    const [program, ...args] = execArguments(context.layout, record, sampleWork)
    await runCommand(program!, args, { timeoutMs: trialLimitMs })
    const workCpuMs = (await cpuTimeMs()) - watched
    return { startCpuMs, idleCpuMs, workCpuMs }
  } catch (error) {
    return { failure: errorText(error).trim().split('\n')[0]!.slice(0, 300) }
  } finally {
    await dismantle(context, sandboxID)
  }
}

async function quietestSecond(cpuTimeMs: () => Promise<number>): Promise<number> {
  let min = Number.POSITIVE_INFINITY
  for (let watch = 0; watch < watches && min > quietMs; watch++) {
    const before = await cpuTimeMs()
    await delay(watchMs)
    min = Math.min(min, (await cpuTimeMs()) - before)
  }
  return min
}

/** The agent brings everything it needs, so it runs in an empty root. */
async function emptyRoot(context: OciContext): Promise<string> {
  const folder = join(context.layout.disks, 'empty-root')
  await mkdir(folder, { recursive: true })
  await prepareRoot(folder, context.uidBase)
  return folder
}

async function describeMachine(binary: string): Promise<string> {
  const { size, mtimeMs } = await stat(binary)
  return `${trialVersion} ${release()} ${binary} ${size} ${Math.round(mtimeMs)} ${hasKvm()}`
}

async function readChoice(file: string): Promise<LocalChoice | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as LocalChoice
  } catch {
    // The stored choice only saves time: the choice is made again.
    return undefined
  }
}
