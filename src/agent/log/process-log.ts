/** Log entries of one process: its start, its output, its end. */
import { StringDecoder } from 'node:string_decoder'
import { errorText } from '../../lib/app-error.ts'
import { type AgentLog, reportLeftOutAfterMs } from './agent-log.ts'

type StartedProcess = {
  pid: number
  cmd: string
  args: readonly string[]
  user: string
  cwd: string
  tag: string | undefined
}

type OutputName = 'stdout' | 'stderr' | 'pty'

/**
 * False for a process whose environment has WARREN_LOG=off. Tools that inspect a sandbox every few seconds
 * set it, so that the log shows only what the sandbox does.
 */
export const isLogged = (envs: Readonly<Record<string, string>>): boolean => envs.WARREN_LOG !== 'off'

/** Bytes of output in one entry. */
const largestPiece = 4096

export class ProcessLog {
  readonly #log: AgentLog
  readonly #pid: string
  readonly #decoders = new Map<OutputName, StringDecoder>()
  /** Bytes dropped since there was too much output; while there are any, further output is dropped too. */
  #gapBytes = 0

  constructor(log: AgentLog, { pid, cmd, args, user, cwd, tag }: StartedProcess) {
    this.#log = log
    this.#pid = String(pid)
    this.#add('info', `Process started: ${commandLine(cmd, args)}`, 'process_start', {
      cmd,
      user,
      cwd,
      ...(tag !== undefined && { tag }),
    })
  }

  /** A character may be split between two calls. */
  output(name: OutputName, bytes: Buffer): void {
    let at = 0
    while (at < bytes.length && this.#gapBytes === 0) {
      const piece = bytes.subarray(at, at + largestPiece)
      if (!this.#log.takeOutput(piece.length)) break
      this.#addOutput(name, this.#decoder(name).write(piece))
      at += piece.length
    }
    if (at < bytes.length) this.#leaveOut(bytes.length - at)
  }

  #leaveOut(bytes: number): void {
    if (this.#gapBytes === 0) {
      this.#decoders.clear()
      this.#log.clock.after(reportLeftOutAfterMs, () => this.#closeGap())
    }
    this.#gapBytes += bytes
  }

  #closeGap(): void {
    if (this.#gapBytes === 0) return
    const bytes = String(this.#gapBytes)
    this.#gapBytes = 0
    this.#add('warn', `${bytes} bytes of output were left out here: too much at once`, 'left_out', { bytes })
  }

  ended(exitCode: number | null, signal: string | null): void {
    this.#closeGap()
    for (const [name, decoder] of this.#decoders) this.#addOutput(name, decoder.end())
    const how = exitCode === null ? `killed by ${signal}` : `exit status ${exitCode}`
    this.#add('info', `Process ended: ${how}`, 'process_end', {
      ...(exitCode === null ? { signal: String(signal) } : { exit_code: String(exitCode) }),
    })
  }

  #decoder(name: OutputName): StringDecoder {
    const known = this.#decoders.get(name) ?? new StringDecoder('utf8')
    this.#decoders.set(name, known)
    return known
  }

  #addOutput(name: OutputName, text: string): void {
    if (text !== '') this.#add(name === 'stderr' ? 'error' : 'info', text.replace(/\r?\n$/, ''), name)
  }

  #add(
    level: 'info' | 'warn' | 'error',
    message: string,
    event: string,
    more: Record<string, string> = {},
  ): void {
    const fields = { logger: 'process', event_type: event, pid: this.#pid, ...more }
    // A short command ends in a moment, so all its entries are sent together.
    this.#log.add(level, message, fields, event !== 'process_end')
  }
}

export function logFailedStart(
  log: AgentLog,
  { cmd, args, user }: Pick<StartedProcess, 'cmd' | 'args' | 'user'>,
  error: unknown,
): void {
  const fields = { logger: 'process', event_type: 'process_start_failed', cmd, user }
  log.add('error', `Process not started: ${commandLine(cmd, args)}: ${errorText(error)}`, fields)
}

function commandLine(cmd: string, args: readonly string[]): string {
  return [cmd, ...args].join(' ')
}
