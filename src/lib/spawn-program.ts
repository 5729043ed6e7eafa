/** Runs a program without a shell until it ends, in the calling thread. */
import { spawn } from 'node:child_process'
import { errorText } from './app-error.ts'
import { type SpawnedProgram, type SpawnOptions, spawnByCall } from './spawn-by-call.ts'

/** Options for running a program that can be sent to another thread. */
export type ProgramOptions = {
  input?: string
  env?: Record<string, string>
  cwd?: string
  /** The program is killed after this long. */
  timeoutMs?: number
}

export type ProgramRequest = ProgramOptions & { program: string; args: readonly string[] }

/** `exitCode` is null if a signal ended the program, or if it could not be started; `stderr` then says why. */
export type ProgramEnd = { exitCode: number | null; stdout: string; stderr: string }

/** When `signal` aborts, this kills the program and does not wait for its end. */
export async function spawnProgram(
  { program, args, input, timeoutMs, ...options }: ProgramRequest,
  signal?: AbortSignal,
  onOutput?: (chunk: Buffer) => void,
): Promise<ProgramEnd> {
  const cannotStart = (error: unknown) => ({ exitCode: null, stdout: '', stderr: errorText(error) })
  if (signal?.aborted) return cannotStart(signal.reason)
  const asked = { ...options, hasInput: input !== undefined }
  let child: Child
  try {
    child = spawnChild(program, args, asked)
  } catch (error) {
    return cannotStart(error)
  }
  const timer = timeoutMs && setTimeout(child.kill, timeoutMs)
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => (onOutput ? onOutput(chunk) : stdout.push(chunk)))
  child.stderr.on('data', (chunk: Buffer) => {
    onOutput?.(chunk)
    stderr.push(chunk)
  })
  child.stdin?.on('error', () => {})
  child.stdin?.end(input)
  const textOf = (chunks: Buffer[]) => Buffer.concat(chunks).toString()
  const ended = child.exited.then(
    (exitCode) => ({ exitCode, stdout: textOf(stdout), stderr: textOf(stderr) }),
    cannotStart,
  )
  return killOnAbort(child, ended, signal).finally(() => clearTimeout(timer))
}

/** If Node starts the program, `exited` rejects if it could not be started. */
type Child = Omit<SpawnedProgram, 'pid'>

/** If the program cannot be started, throws or returns a program whose `exited` rejects. */
function spawnChild(program: string, args: readonly string[], options: SpawnOptions): Child {
  return spawnByCall(program, args, options) ?? spawnByNode(program, args, options)
}

function spawnByNode(
  program: string,
  args: readonly string[],
  { hasInput, ...options }: SpawnOptions,
): Child {
  const child = spawn(program, args, {
    stdio: [hasInput ? 'pipe' : 'ignore', 'pipe', 'pipe'],
    ...options,
  })
  const exited = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', resolve)
  })
  const { stdin, stdout, stderr } = child
  const kill = () => void child.kill('SIGKILL')
  return { stdin: stdin ?? undefined, stdout: stdout!, stderr: stderr!, exited, kill }
}

function killOnAbort(
  child: Child,
  ended: Promise<ProgramEnd>,
  signal: AbortSignal | undefined,
): Promise<ProgramEnd> {
  if (!signal) return ended
  return new Promise((resolve) => {
    const abort = () => {
      child.kill()
      resolve({ exitCode: null, stdout: '', stderr: errorText(signal.reason) })
    }
    signal.addEventListener('abort', abort, { once: true })
    void ended.then(resolve).finally(() => signal.removeEventListener('abort', abort))
  })
}
