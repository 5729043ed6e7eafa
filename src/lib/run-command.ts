/** Runs a program without a shell and returns its output. An error quotes the program's own message. */
import { AppError } from './app-error.ts'
import { atUsualPriority } from './priority.ts'
import { ProgramThread } from './program-thread.ts'
import { type ProgramOptions, spawnProgram } from './spawn-program.ts'

type CommandOptions = ProgramOptions & {
  /** When this aborts, the program is killed, and the command rejects with the signal's reason. */
  signal?: AbortSignal
  /** Called with standard output and error as they arrive. The result then has no output. */
  onOutput?: (chunk: Buffer) => void
}

type CommandResult = { stdout: string; stderr: string }

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

/** Lets a separate thread start all programs until the returned function is called. */
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
