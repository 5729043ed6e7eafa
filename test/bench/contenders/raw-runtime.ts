/**
 * An OCI runtime called by hand on the same root filesystem: what a sandbox costs when nothing is around it.
 * The overlay mount is timed, since every sandbox needs one; the network namespace is not, since Warren too
 * has it prepared.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import { join } from 'node:path'
import { agentPort } from '../../../src/core/ports/agent.ts'
import { gpuMount } from '../../../src/drivers/host/device/driver-files.ts'
import { delay } from '../../../src/lib/clock.ts'
import { runCommand } from '../../../src/lib/run-command.ts'
import { cacheFolder } from '../../support/warren.ts'
import { timed } from '../measure.ts'
import type { NetworkNamespace } from './network-namespace.ts'
import { type ContainerProcess, rawSpec } from './raw-spec.ts'

export type RawRuntime = {
  name: string
  /** Milliseconds until /bin/true has ended. */
  runTrue(): Promise<number>
  /** Milliseconds until the agent answers GET /health. */
  bootAgent(agent: ContainerProcess): Promise<number>
  /** A container that does nothing, to run commands in. */
  startIdle(): Promise<RunningContainer>
}

export type RunningContainer = {
  /** Runs a command as the user of the base template; gives what it printed. */
  exec(words: readonly string[]): Promise<string>
  close(): Promise<void>
}

export type RawSlot = {
  /** The program and its options, without a verb. */
  command: readonly string[]
  rootFolder: string
  network: NetworkNamespace
}

const answerWithinMs = 30_000
const env = ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin']

export function rawRuntime(name: string, slot: RawSlot): RawRuntime {
  return {
    name,
    runTrue: () =>
      inBundle(name, slot, { args: ['/bin/true'], env: ['PATH=/usr/bin:/bin'] }, ({ run }) => run()),
    bootAgent: (agent) =>
      inBundle(name, slot, agent, async ({ run }) => {
        await run('--detach')
        await untilHealthy(slot.network.address)
      }),
    async startIdle() {
      const bundle = await openBundle(name, slot, { args: ['/bin/sleep', 'infinity'], env })
      try {
        await bundle.run('--detach')
      } catch (error) {
        await bundle.close()
        throw error
      }
      return bundle
    },
  }
}

export type Bundle = RunningContainer & {
  /** What is written inside, as the host sees it. */
  upper: string
  run(...options: string[]): Promise<void>
  checkpoint(memoryFolder: string, ...options: string[]): Promise<void>
  /** Instead of `run`: restores a checkpoint. */
  restore(memoryFolder: string, ...options: string[]): Promise<void>
  /** Ends when all memory is read back, that of a GPU too. */
  awaitRestore(): Promise<void>
  /** Runs a program to its end. */
  execAsRoot(options: readonly string[], words: readonly string[]): Promise<void>
}
let bundles = 0

/** Times `work` in a new bundle, and removes every trace. */
async function inBundle(
  name: string,
  slot: RawSlot,
  process: ContainerProcess,
  work: (bundle: Bundle) => Promise<void>,
): Promise<number> {
  const bundle = await openBundle(name, slot, process)
  try {
    const [ms] = await timed(() => work(bundle))
    return ms
  } finally {
    await bundle.close()
  }
}

export async function openBundle(
  name: string,
  { command, rootFolder, network }: RawSlot,
  process: ContainerProcess,
): Promise<Bundle> {
  const id = `${name.replaceAll(' ', '-')}-${globalThis.process.pid}-${++bundles}`
  const folder = join(cacheFolder, `bench-${id}`)
  const [root, upper, workdir] = ['root', 'upper', 'work'].map((part) => join(folder, part))
  const logFile = join(folder, 'log')
  const call = [...command, '--root', join(folder, 'state'), '--log', logFile]
  const mountPoints = [process.mount?.destination ?? '', ...(process.gpu ? [gpuMount] : [])]
  for (const layer of [root!, workdir!, ...mountPoints.map((path) => join(upper!, path))]) {
    await mkdir(layer, { recursive: true })
  }
  await writeFile(join(folder, 'config.json'), JSON.stringify(rawSpec(root!, process, network.namespacePath)))
  await network.restore()
  const overlay = `lowerdir=${rootFolder},upperdir=${upper},workdir=${workdir}`
  const start = async (verb: string, ...options: string[]) => {
    await runCommand('mount', ['-t', 'overlay', '-o', overlay, 'overlay', root!])
    await callRuntime([...call, verb, ...options, '--bundle', folder, id], logFile)
  }
  return {
    upper: upper!,
    run: (...options) => start('run', ...options),
    checkpoint: (memory, ...options) =>
      callRuntime([...call, 'checkpoint', ...options, '--image-path', memory, id], logFile),
    restore: (memory, ...options) =>
      start('restore', '--detach', '--background', ...options, '--image-path', memory),
    awaitRestore: () => callRuntime([...call, 'wait', '--restore', id], logFile),
    execAsRoot: async (options, words) => {
      const [program, ...args] = [...call, 'exec', ...options, id, ...words]
      await runCommand(program!, args, { timeoutMs: 300_000 })
    },
    async exec(words) {
      const [program, ...args] = [...call, 'exec', '--user', '1000:1000', '--env', 'HOME=/home/user', id]
      return (await runCommand(program!, [...args, ...words])).stdout
    },
    async close() {
      await callRuntime([...call, 'delete', '--force', id], logFile).catch(() => {})
      // The second is a mount of gVisor's own, beside the state of its sandboxes.
      for (const mount of [root!, join(folder, 'state/null-netns')]) {
        await runCommand('umount', ['--lazy', mount]).catch(() => {})
      }
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Without pipes: a detached sandbox would hold them open. */
async function callRuntime([program, ...args]: readonly string[], logFile: string): Promise<void> {
  const child = spawn(program!, args, { stdio: 'ignore' })
  const [exitCode] = await once(child, 'exit')
  if (exitCode === 0) return
  const said = await readFile(logFile, 'utf8').catch(() => '')
  throw new Error(`${program} ended with ${exitCode}: ${said.trim().split('\n').at(-1)}`)
}

export async function untilHealthy(host: string): Promise<void> {
  const deadline = performance.now() + answerWithinMs
  while (!(await answers(host))) {
    if (performance.now() > deadline) throw new Error(`the agent at ${host} does not answer /health`)
    await delay(1)
  }
}

function answers(host: string): Promise<boolean> {
  return new Promise((resolve) => {
    // A connection attempt into a stack that is not there yet is lost, and the kernel repeats it a second later.
    const timeout = 100
    const request = http.get(
      { host, port: agentPort, path: '/health', agent: false, timeout },
      (response) => {
        response.resume()
        resolve((response.statusCode ?? 500) < 300)
      },
    )
    request.on('timeout', () => request.destroy())
    request.on('error', () => resolve(false))
  })
}
