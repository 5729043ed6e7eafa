/** Runs a program without a shell and gives back what it printed; a failure quotes the program's own words. */
import { spawn } from 'node:child_process'
import { AppError } from './app-error.ts'

export type CommandOptions = {
  input?: string
  env?: Record<string, string>
  cwd?: string
  /** The program is killed after this long. */
  timeoutMs?: number
  /** When this aborts, the program is killed, and the command rejects with the signal's reason. */
  signal?: AbortSignal
  /** Sees standard output and error as they arrive; nothing is kept for the result then. */
  onOutput?: (chunk: Buffer) => void
}

export type CommandResult = { stdout: string; stderr: string }

export class CommandFailed extends AppError {
  readonly exitCode: number | null
  readonly stderr: string

  constructor(program: string, args: readonly string[], exitCode: number | null, said: string) {
    const shown = [program, ...args].join(' ')
    super('internal', `${shown}: ${said.trim() || `ended with ${exitCode ?? 'a signal'}`}`)
    this.exitCode = exitCode
    this.stderr = said
  }
}

export function runCommand(
  program: string,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      ...(options.env && { env: options.env }),
      ...(options.cwd && { cwd: options.cwd }),
      ...(options.timeoutMs && { timeout: options.timeoutMs }),
      ...(options.signal && { signal: options.signal }),
      killSignal: 'SIGKILL',
    })
    const stdout: Buffer[] = []
    const stderr: Buffer[] = []
    child.stdout?.on('data', (chunk: Buffer) =>
      options.onOutput ? options.onOutput(chunk) : stdout.push(chunk),
    )
    child.stderr?.on('data', (chunk: Buffer) => {
      options.onOutput?.(chunk)
      stderr.push(chunk)
    })
    child.stdin?.on('error', () => {})
    child.stdin?.end(options.input)
    child.on('error', (error) => {
      const { signal } = options
      reject(signal?.aborted ? signal.reason : new CommandFailed(program, args, null, error.message))
    })
    child.on('close', (exitCode) => {
      const said = Buffer.concat(stderr).toString()
      if (exitCode === 0) resolve({ stdout: Buffer.concat(stdout).toString(), stderr: said })
      else reject(new CommandFailed(program, args, exitCode, said || Buffer.concat(stdout).toString()))
    })
  })
}
