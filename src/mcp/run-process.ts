/** Runs a command in a sandbox through its agent, and limits the size of its output. */
import type { IncomingMessage } from 'node:http'
import { StringDecoder } from 'node:string_decoder'
import { AppError } from '../lib/app-error.ts'
import { connectFrame, connectFramesIn } from '../lib/connect-frames.ts'
import { BoundedText } from './bounded-text.ts'
import type { SandboxPort, WarrenClient } from './warren-client.ts'

type ProcessRequest = {
  command: string
  cwd?: string
  user?: string
  envs?: Record<string, string>
  timeoutSeconds: number
  /** Wait only for its start. */
  background: boolean
}

export type ProcessOutcome = {
  pid: number
  stdout: BoundedText
  stderr: BoundedText
  /** Unset if the command was left running. */
  status?: string
}

/** The agent sends pieces of at most 32 KiB, which base64 makes longer. */
const largestFrame = 256 * 1024
const maxOutputBytes = 32 * 1024 * 1024
const shownCharacters = 30_000
const tookTooLong =
  'The command was ended because its timeout was over. Give it more time, or run it with background: true.'
/** The agent ends the command at its time limit; this is extra time for its answer. */
const graceMs = 10_000

type FrameMessage = {
  event?: {
    start?: { pid?: number }
    data?: { stdout?: string; stderr?: string }
    end?: { status?: string }
  }
  error?: { code?: string; message?: string }
}

export async function runProcess(
  client: WarrenClient,
  agent: SandboxPort,
  request: ProcessRequest,
  signal: AbortSignal,
): Promise<ProcessOutcome> {
  const response = await client.reach(agent, {
    method: 'POST',
    path: '/process.Process/Start',
    body: startMessage(request),
    signal,
    headers: headersOf(request),
    withinMs: request.timeoutSeconds * 1000 + graceMs,
  })
  const outcome: ProcessOutcome = {
    pid: 0,
    stdout: new BoundedText(shownCharacters),
    stderr: new BoundedText(shownCharacters),
  }
  try {
    await follow(response, outcome, request.background)
    return outcome
  } catch (error) {
    // The command has lost its only reader.
    if (outcome.pid > 0) await kill(client, agent, outcome.pid)
    throw error
  } finally {
    response.destroy()
  }
}

async function follow(response: IncomingMessage, outcome: ProcessOutcome, leaves: boolean): Promise<void> {
  const decoders = { stdout: new StringDecoder(), stderr: new StringDecoder() }
  let bytes = 0
  for await (const { isLast, message } of connectFramesIn<FrameMessage>(response, largestFrame)) {
    if (isLast) {
      if (message.error?.code === 'deadline_exceeded') outcome.status = tookTooLong
      else if (message.error) throw new AppError('unprocessable', message.error.message ?? 'It failed.')
      return
    }
    const { start, data, end } = message.event ?? {}
    if (start) outcome.pid = start.pid ?? 0
    if (start && leaves) return
    if (end) outcome.status = end.status ?? ''
    for (const stream of ['stdout', 'stderr'] as const) {
      const piece = Buffer.from(data?.[stream] ?? '', 'base64')
      bytes += piece.length
      outcome[stream].add(decoders[stream].write(piece))
    }
    if (bytes > maxOutputBytes) {
      throw new AppError(
        'payload_too_large',
        `The command was ended because it wrote more than ${maxOutputBytes / 1024 / 1024} MiB. Send its output to a file.`,
      )
    }
  }
  throw new AppError('unavailable', 'The connection to the sandbox broke off before the command ended.')
}

function startMessage({ command, cwd, envs = {} }: ProcessRequest): Buffer {
  const args = ['-l', '-c', command]
  const process = { cmd: '/bin/bash', args, envs, ...(cwd !== undefined && { cwd }) }
  return connectFrame({ process, stdin: false })
}

function headersOf({ user, timeoutSeconds, background }: ProcessRequest) {
  return {
    'content-type': 'application/connect+json',
    'connect-protocol-version': '1',
    ...(!background && { 'connect-timeout-ms': timeoutSeconds * 1000 }),
    ...(user !== undefined && { authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}` }),
  }
}

async function kill(client: WarrenClient, agent: SandboxPort, pid: number): Promise<void> {
  const message = { process: { pid }, signal: 'SIGNAL_SIGKILL' }
  // The command may have ended already.
  await client.call(agent, 'process.Process/SendSignal', message).catch(() => {})
}
