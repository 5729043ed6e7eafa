/** Runs a program without a shell and gives back what it printed; a failure quotes the program's own words. */
import { AppError } from './app-error.ts'
import { atUsualPriority } from './priority.ts'
import { ProgramThread } from './program-thread.ts'
import { type ProgramOptions, spawnProgram } from './spawn-program.ts'

export type CommandOptions = ProgramOptions & {
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

let thread: ProgramThread | undefined

/** From now on programs are started by a thread of their own, until the function that comes back is called. */
export function startProgramsInThread(): () => Promise<void> {
  const started = atUsualPriority(() => new ProgramThread())
  thread = started
  return async () => {
    if (thread === started) thread = undefined
    await started.close()
  }
}

export async function runCommand(
  program: string,
  args: readonly string[],
  { signal, onOutput, ...options }: CommandOptions = {},
): Promise<CommandResult> {
  const request = { program, args, ...options }
  const { exitCode, stdout, stderr } = await (thread?.isUsable && !onOutput
    ? thread.run(request, signal)
    : atUsualPriority(() => spawnProgram(request, signal, onOutput)))
  if (exitCode === 0) return { stdout, stderr }
  if (exitCode === null && signal?.aborted) throw signal.reason
  throw new CommandFailed(program, args, exitCode, stderr || stdout)
}
