/** Runs a command in a sandbox through the agent's own process service, as a client would. */
import { type IncomingMessage, request } from 'node:http'
import { header } from '../contract/constants.ts'
import type { AgentCommand, CommandEnd, CommandOutput } from '../core/agent.ts'
import type { Endpoint } from '../core/driver.ts'
import { AppError } from '../lib/app-error.ts'

/** The agent sends output in pieces far smaller than this. */
const largestFrame = 4 * 1024 * 1024
const endOfStream = 0x02

type Event = {
  data?: { stdout?: string; stderr?: string }
  end?: { exitCode?: number; exited?: boolean; status?: string }
}

export async function runProcess(
  agent: Endpoint,
  accessToken: string,
  command: AgentCommand,
  options: { onOutput?: (output: CommandOutput) => void; signal: AbortSignal },
): Promise<CommandEnd> {
  const response = await start(agent, accessToken, command, options.signal)
  let ended: CommandEnd | undefined
  for await (const frame of frames(response)) {
    if (frame.flags & endOfStream) {
      const { error } = JSON.parse(frame.text) as { error?: { code: string; message?: string } }
      if (error) throw new AppError('unprocessable', `${error.code}: ${error.message ?? ''}`)
      break
    }
    const { data, end } = (JSON.parse(frame.text) as { event?: Event }).event ?? {}
    for (const stream of ['stdout', 'stderr'] as const) {
      const piece = data?.[stream]
      if (piece) options.onOutput?.({ stream, data: Buffer.from(piece, 'base64') })
    }
    if (end) ended = { exitCode: end.exitCode ?? 0, status: end.status ?? '' }
  }
  if (ended) return ended
  throw new AppError('unavailable', 'the agent broke off before the command had ended')
}

function start(
  agent: Endpoint,
  accessToken: string,
  { command, shell = 'bash', user, cwd, envs, tag }: AgentCommand,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const [cmd, ...flags] = shell === 'bash' ? ['/bin/bash', '-l', '-c'] : ['/bin/sh', '-c']
  const process = { cmd, args: [...flags, command], envs, cwd }
  const text = Buffer.from(JSON.stringify({ process, stdin: false, ...(tag !== undefined && { tag }) }))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(text.length, 1)
  const headers = {
    'content-type': 'application/connect+json',
    'connect-protocol-version': '1',
    authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}`,
    [header.accessToken]: accessToken,
  }
  return new Promise((resolve, reject) => {
    const path = '/process.Process/Start'
    const target = { host: agent.host, port: agent.port, method: 'POST', path, headers }
    const outgoing = request({ ...target, agent: false, signal })
    outgoing.on('error', reject)
    outgoing.on('response', (response) => {
      if (response.statusCode === 200) return resolve(response)
      response.destroy()
      reject(new AppError('internal', `the agent answered a command with ${response.statusCode}`))
    })
    outgoing.end(Buffer.concat([head, text]))
  })
}

async function* frames(response: IncomingMessage): AsyncGenerator<{ flags: number; text: string }> {
  let pieces: Buffer[] = []
  let size = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    pieces.push(chunk)
    size += chunk.length
    let all: Buffer | undefined
    for (;;) {
      if (size < 5) break
      all ??= pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
      const length = all.readUInt32BE(1)
      if (length > largestFrame) throw new AppError('internal', 'the agent sent a message that is too large')
      if (size < 5 + length) break
      yield { flags: all[0]!, text: all.toString('utf8', 5, 5 + length) }
      all = all.subarray(5 + length)
      size = all.length
      pieces = [all]
    }
  }
}
