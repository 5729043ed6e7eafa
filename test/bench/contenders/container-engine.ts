/** What Docker and podman have in common as peers: containers that are started by a command line. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { withDeadline } from '../../../src/lib/deadline.ts'
import { runCommand } from '../../../src/lib/run-command.ts'
import type { RunningContainer } from './raw-runtime.ts'

export type EngineRun = { firstOutputMs: number; exitMs: number }

export type ContainerEngine = {
  name: string
  version: string
  /** `run --rm` on the bridge: milliseconds until the first output and until the end. */
  run(command: readonly string[]): Promise<EngineRun>
  /** A container that does nothing, to run commands in. */
  startIdle(): Promise<RunningContainer>
  close(): Promise<void>
}

/** How an engine is called: the words before the verb, and those that every container gets. */
export type EngineCall = {
  program: string
  words: readonly string[]
  env: Record<string, string>
  runOptions: readonly string[]
}

export type EngineParts = {
  name: string
  call: EngineCall
  /** What makes `version --format` print the version and nothing else. */
  versionFormat: string
  /** Resolves as soon as the engine can be called. */
  untilReady(): Promise<unknown>
  close(): Promise<void>
}

export const benchImage = 'warren-bench'
const endsWithinMs = 20_000

/** The engine with the root as its only image. Rejects with nothing left behind. */
export async function openEngine(parts: EngineParts, rootFolder: string): Promise<ContainerEngine> {
  const { name, call, versionFormat, untilReady, close } = parts
  try {
    await untilReady()
    const version = await callEngine(call, 'version', '--format', versionFormat)
    await importRoot(call, rootFolder)
    return {
      name,
      version,
      close,
      run: (command) => runContainer(call, command),
      startIdle: () => startIdleContainer(call),
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** A process that does not end by itself is killed. */
export async function endProcess(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await withDeadline(endsWithinMs, 'the process does not end', () => ended).catch(async () => {
    child.kill('SIGKILL')
    await ended
  })
}

export const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean =>
  exitCode !== null || signalCode !== null

export async function callEngine({ program, words, env }: EngineCall, ...more: string[]): Promise<string> {
  return (await runCommand(program, [...words, ...more], { env })).stdout.trim()
}

async function importRoot(call: EngineCall, rootFolder: string): Promise<void> {
  const script = 'folder=$1; shift; tar -C "$folder" -c . | "$@"'
  const { program, words, env } = call
  const load = [program, ...words, 'import', '-', benchImage]
  await runCommand('sh', ['-c', script, 'sh', rootFolder, ...load], { env })
}

async function startIdleContainer(call: EngineCall): Promise<RunningContainer> {
  const id = await callEngine(call, 'run', '--detach', ...call.runOptions, benchImage, 'sleep', 'infinity')
  const { program, words, env } = call
  return {
    exec: async (command) =>
      (await runCommand(program, [...words, 'exec', '--user', 'user', id, ...command], { env })).stdout,
    close: async () => void (await callEngine(call, 'rm', '--force', id)),
  }
}

async function runContainer(call: EngineCall, command: readonly string[]): Promise<EngineRun> {
  const start = performance.now()
  const { program, words, env, runOptions } = call
  const child = spawn(program, [...words, 'run', '--rm', ...runOptions, benchImage, ...command], { env })
  let firstOutputMs = Number.NaN
  const said: Buffer[] = []
  child.stdout.once('data', () => {
    firstOutputMs = performance.now() - start
  })
  child.stdout.resume()
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk))
  child.stdin.end()
  const [exitCode] = await once(child, 'close')
  const exitMs = performance.now() - start
  if (exitCode !== 0) throw new Error(`${program} run ended with ${exitCode}: ${Buffer.concat(said)}`)
  return { firstOutputMs, exitMs }
}
