/** A process in a sandbox, over the agent's usual protocol: with a terminal, or with pipes. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { constants } from 'node:os'
import type { Readable, Writable } from 'node:stream'
import { AppError, isAppError } from '../lib/app-error.ts'
import { systemClock } from '../lib/clock.ts'
import { connectFrame, connectFramesIn } from '../lib/connect-frames.ts'
import { CommandFailure } from './command-failure.ts'
import { plainLines } from './output.ts'
import { explainEnd } from './sandbox-end.ts'
import type { AgentAccess, TeamClient } from './team-client.ts'

/** The person's side: keyboard, screen and screen size. */
export type UserTerminal = {
  isTerminal: boolean
  size(): { cols: number; rows: number }
  onResize(listener: () => void): void
  /** Passes every key on as it is typed, until the returned function is called. */
  takeKeys(listener: (keys: Buffer) => void, onEnd: () => void): () => void
  write(output: Buffer): void
}

export type RemoteCommand = {
  cmd: string
  args: string[]
  envs: Record<string, string>
  cwd?: string
}

type LocalPipes = {
  /** Undefined: the process has no input. */
  input: Readable | undefined
  output: Writable
  errors: Writable
}

type EndFields = { exitCode?: number; status?: string }
type ProcessMessage = {
  event?: {
    start?: { pid?: number }
    data?: { pty?: string; stdout?: string; stderr?: string }
    end?: EndFields
  }
  error?: { message?: string }
}
type Handlers = {
  start: (pid: number) => void
  data: (bytes: Buffer, isError: boolean) => Promise<void> | void
}

const largestFrame = 256 * 1024
/** The byte that a shell reads as the end of its input. */
const endOfInput = Buffer.from([4])
const repeatEndEveryMs = 1000

/** Runs commands in one sandbox. An aborted `signal` asks a process with pipes to end, and rejects. */
export class RemoteProcesses {
  readonly #client: TeamClient
  readonly #agent: AgentAccess

  constructor(client: TeamClient, agent: AgentAccess) {
    this.#client = client
    this.#agent = agent
  }

  /** Resolves with the exit code. */
  async runInTerminal(command: RemoteCommand, terminal: UserTerminal, signal?: AbortSignal): Promise<number> {
    const stream = await this.#start({ process: command, pty: { size: terminal.size() } }, signal)
    let giveBack = () => {}
    let stopRepeating = () => {}
    try {
      return await follow(stream, {
        start: (pid) => {
          const keys = new KeyQueue((bytes) => this.#send(pid, { pty: bytes.toString('base64') }))
          // A terminal forgets an end of input when its program changes the mode, as shells do when they start.
          const endInput = () => {
            keys.push(endOfInput)
            stopRepeating = systemClock.after(repeatEndEveryMs, endInput)
          }
          giveBack = terminal.takeKeys((typed) => keys.push(typed), endInput)
          const resize = () => this.#call('Update', { process: { pid }, pty: { size: terminal.size() } })
          terminal.onResize(() => void resize().catch(() => {}))
        },
        data: (bytes) => terminal.write(bytes),
      })
    } catch (error) {
      throw await this.#explained(error, signal)
    } finally {
      stopRepeating()
      giveBack()
    }
  }

  /** Resolves with the exit code. Output that nobody reads stops the process, as a pipe does. */
  async runWithPipes(
    command: RemoteCommand,
    { input, output, errors }: LocalPipes,
    signal?: AbortSignal,
  ): Promise<number> {
    const stream = await this.#start({ process: command, stdin: input !== undefined }, signal)
    let started: number | undefined
    try {
      return await follow(stream, {
        start: (pid) => {
          started = pid
          // Without its input, the process would wait for the rest of it.
          const fail = (error: Error) => (hasClosedInput(error) ? undefined : stream.destroy(error))
          if (input) void this.#sendAll(pid, input).catch(fail)
        },
        data: async (bytes, isError) => {
          const target = isError ? errors : output
          if (!target.write(bytes)) await once(target, 'drain', signal && { signal })
        },
      })
    } catch (error) {
      const terminate = { process: { pid: started }, signal: 'SIGNAL_SIGTERM' }
      if (signal?.aborted && started !== undefined) await this.#call('SendSignal', terminate).catch(() => {})
      throw await this.#explained(error, signal)
    } finally {
      input?.destroy()
    }
  }

  /** If the sandbox has ended or was paused, that is the error. */
  async #explained(error: unknown, signal: AbortSignal | undefined): Promise<unknown> {
    if (signal?.aborted || error instanceof CommandFailure) return error
    const isBroken = error instanceof AppError && error.message === brokeOff
    return (await explainEnd(this.#client, this.#agent.sandboxID, isBroken)) ?? error
  }

  async #sendAll(pid: number, input: Readable): Promise<void> {
    for await (const chunk of input) await this.#send(pid, { stdin: Buffer.from(chunk).toString('base64') })
    await this.#call('CloseStdin', { process: { pid } })
  }

  #send(pid: number, input: { pty: string } | { stdin: string }): Promise<void> {
    return this.#call('SendInput', { process: { pid }, input })
  }

  #start(request: unknown, signal: AbortSignal | undefined): Promise<IncomingMessage> {
    return this.#client.callAgent(this.#agent, {
      path: '/process.Process/Start',
      headers: { ...connectHeaders, 'content-type': 'application/connect+json' },
      body: connectFrame(request),
      ...(signal && { signal }),
    })
  }

  async #call(method: string, message: unknown): Promise<void> {
    const headers = { ...connectHeaders, 'content-type': 'application/json' }
    const body = Buffer.from(JSON.stringify(message))
    const answer = await this.#client.callAgent(this.#agent, {
      path: `/process.Process/${method}`,
      headers,
      body,
    })
    answer.resume()
  }
}

/** The process has closed its input, or has ended: a command need not read all of it. */
const hasClosedInput = (error: Error): boolean =>
  isAppError(error, 'not_found') || error.message.startsWith('error writing to stdin')

const connectHeaders = { 'connect-protocol-version': '1' }

async function follow(stream: IncomingMessage, { start: onStart, data: onData }: Handlers): Promise<number> {
  let isStarted = false
  try {
    for await (const { isLast, message } of connectFramesIn<ProcessMessage>(unbroken(stream), largestFrame)) {
      if (isLast) throw endedEarly(message.error?.message, isStarted)
      const { start, data, end } = message.event ?? {}
      if (start) {
        isStarted = true
        onStart(start.pid ?? 0)
      }
      const text = data?.pty ?? data?.stdout ?? data?.stderr
      if (text) await onData(Buffer.from(text, 'base64'), data?.stderr !== undefined)
      if (end) return exitCodeOf(end)
    }
    throw new AppError('unavailable', brokeOff)
  } finally {
    stream.destroy()
  }
}

/** An error of the connection itself becomes one with words for people; one of ours stays. */
async function* unbroken(stream: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    yield* stream
  } catch (error) {
    throw isAppError(error) ? error : new AppError('unavailable', brokeOff, { cause: error })
  }
}

function endedEarly(message: string | undefined, isStarted: boolean): AppError {
  if (message === undefined) return new AppError('unavailable', brokeOff)
  const text = plainLines(message)
  if (isStarted) return new AppError('unavailable', text)
  return new CommandFailure(text, /no such (?:program|file)/i.test(text) ? 127 : 126)
}

const brokeOff = 'The connection to the sandbox broke off.'

/** A process that a signal ended has the exit code that a shell gives it. */
function exitCodeOf({ exitCode = 0, status = '' }: EndFields): number {
  if (exitCode >= 0) return exitCode
  const name = signalNames[status.replace('signal: ', '')] ?? status.replace('signal: ', '')
  return 128 + (constants.signals[name as NodeJS.Signals] ?? 0)
}

/** The names of signals on the wire that people meet; others come as SIG…. */
const signalNames: Record<string, NodeJS.Signals> = {
  hangup: 'SIGHUP',
  interrupt: 'SIGINT',
  quit: 'SIGQUIT',
  'illegal instruction': 'SIGILL',
  'trace/breakpoint trap': 'SIGTRAP',
  aborted: 'SIGABRT',
  'bus error': 'SIGBUS',
  'floating point exception': 'SIGFPE',
  killed: 'SIGKILL',
  'user defined signal 1': 'SIGUSR1',
  'segmentation fault': 'SIGSEGV',
  'user defined signal 2': 'SIGUSR2',
  'broken pipe': 'SIGPIPE',
  'alarm clock': 'SIGALRM',
  terminated: 'SIGTERM',
  'CPU time limit exceeded': 'SIGXCPU',
  'file size limit exceeded': 'SIGXFSZ',
}

/**
 * Sends keys to the process in the order in which they were typed. Keys typed during a request are sent
 * together.
 */
class KeyQueue {
  readonly #send: (keys: Buffer) => Promise<void>
  #waiting: Buffer[] = []
  #isSending = false

  constructor(send: (keys: Buffer) => Promise<void>) {
    this.#send = send
  }

  push(keys: Buffer): void {
    this.#waiting.push(keys)
    if (!this.#isSending) void this.#sendWaiting()
  }

  /** A failure is reported by the stream of the process, which then ends too. */
  async #sendWaiting(): Promise<void> {
    this.#isSending = true
    while (this.#waiting.length > 0) await this.#send(Buffer.concat(this.#waiting.splice(0))).catch(() => {})
    this.#isSending = false
  }
}
