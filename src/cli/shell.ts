/** A terminal in a sandbox, over the agent's usual protocol. */
import type { IncomingMessage } from 'node:http'
import { AppError } from '../lib/app-error.ts'
import { connectFrame, connectFramesIn } from '../lib/connect-frames.ts'
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

const largestFrame = 256 * 1024
/** The byte that a shell reads as the end of its input. */
const endOfInput = Buffer.from([4])

type ShellEvent = {
  event?: {
    start?: { pid?: number }
    data?: { pty?: string }
    end?: { exitCode?: number; exited?: boolean; status?: string }
  }
  error?: { message?: string }
}

/** Resolves with the exit code of the shell. */
export async function openShell(
  client: TeamClient,
  agent: AgentAccess,
  terminal: UserTerminal,
  cwd: string | undefined,
): Promise<number> {
  const process = {
    cmd: '/bin/bash',
    args: ['-i', '-l'],
    envs: { TERM: 'xterm-256color' },
    ...(cwd !== undefined && { cwd }),
  }
  const start = connectFrame({ process, pty: { size: terminal.size() } })
  const stream = await client.callAgent(agent, 'Start', 'application/connect+json', start)
  return follow(stream, terminal, new ShellInput(client, agent))
}

async function follow(stream: IncomingMessage, terminal: UserTerminal, input: ShellInput): Promise<number> {
  let giveBack = () => {}
  try {
    for await (const { isLast, message } of connectFramesIn<ShellEvent>(stream, largestFrame)) {
      if (isLast) throw new AppError('unavailable', message.error?.message ?? brokeOff)
      const { start, data, end } = message.event ?? {}
      if (start) {
        const { pid = 0 } = start
        giveBack = terminal.takeKeys(
          (keys) => input.send(pid, keys),
          () => input.send(pid, endOfInput),
        )
        terminal.onResize(() => input.resize(pid, terminal.size()))
      }
      if (data?.pty) terminal.write(Buffer.from(data.pty, 'base64'))
      if (end) return end.exited === false ? 128 : (end.exitCode ?? 0)
    }
    throw new AppError('unavailable', brokeOff)
  } finally {
    giveBack()
    stream.destroy()
  }
}

const brokeOff =
  'The connection to the sandbox broke off. The sandbox may have been killed or paused, or its timeout is over.'

/**
 * Sends keys to the shell in the order in which they were typed. Keys typed during a request are sent
 * together.
 */
class ShellInput {
  readonly #client: TeamClient
  readonly #agent: AgentAccess
  #waiting: Buffer[] = []
  #isSending = false

  constructor(client: TeamClient, agent: AgentAccess) {
    this.#client = client
    this.#agent = agent
  }

  send(pid: number, keys: Buffer): void {
    this.#waiting.push(keys)
    if (!this.#isSending) void this.#sendWaiting(pid)
  }

  resize(pid: number, size: { cols: number; rows: number }): void {
    void this.#call('Update', { process: { pid }, pty: { size } })
  }

  async #sendWaiting(pid: number): Promise<void> {
    this.#isSending = true
    while (this.#waiting.length > 0) {
      const keys = Buffer.concat(this.#waiting.splice(0))
      await this.#call('SendInput', { process: { pid }, input: { pty: keys.toString('base64') } })
    }
    this.#isSending = false
  }

  /** A failure is reported by the stream of the shell, which then ends too. */
  async #call(method: string, message: unknown): Promise<void> {
    const body = Buffer.from(JSON.stringify(message))
    const answer = await this.#client
      .callAgent(this.#agent, method, 'application/json', body)
      .catch(() => undefined)
    answer?.resume()
  }
}
