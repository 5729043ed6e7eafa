/** Runs a program without a shell until it ends, in the thread that calls. */
import { spawn } from 'node:child_process'

/** What can be told to another thread of how to run a program. */
export type ProgramOptions = {
  input?: string
  env?: Record<string, string>
  cwd?: string
  /** The program is killed after this long. */
  timeoutMs?: number
}

export type ProgramRequest = ProgramOptions & { program: string; args: readonly string[] }

/** `exitCode` is null where a signal ended the program, or where it could not be started: `stderr` says why. */
export type ProgramEnd = { exitCode: number | null; stdout: string; stderr: string }

/** When `signal` aborts, the program is killed and not waited for. */
export function spawnProgram(
  { program, args, ...options }: ProgramRequest,
  signal?: AbortSignal,
  onOutput?: (chunk: Buffer) => void,
): Promise<ProgramEnd> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      ...(options.env && { env: options.env }),
      ...(options.cwd && { cwd: options.cwd }),
      ...(options.timeoutMs && { timeout: options.timeoutMs }),
      ...(signal && { signal }),
      killSignal: 'SIGKILL',
    })
    const stdout: Buffer[] = []
    const stderr: Buffer[] = []
    child.stdout?.on('data', (chunk: Buffer) => (onOutput ? onOutput(chunk) : stdout.push(chunk)))
    child.stderr?.on('data', (chunk: Buffer) => {
      onOutput?.(chunk)
      stderr.push(chunk)
    })
    child.stdin?.on('error', () => {})
    child.stdin?.end(options.input)
    child.on('error', ({ message }) => resolve({ exitCode: null, stdout: '', stderr: message }))
    child.on('close', (exitCode) =>
      resolve({
        exitCode,
        stdout: Buffer.concat(stdout).toString(),
        stderr: Buffer.concat(stderr).toString(),
      }),
    )
  })
}
