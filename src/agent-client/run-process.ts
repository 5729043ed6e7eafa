/** Runs a command in a sandbox through the agent's process service, like a client. */
import type { MessageInitShape } from '@bufbuild/protobuf'
import { ConnectError, createClient } from '@connectrpc/connect'
import { codeToString } from '@connectrpc/connect/protocol-connect'
import { header } from '../contract/constants.ts'
import { Process, type StartRequestSchema } from '../contract/rpc/process_pb.ts'
import type { AgentCommand, CommandEnd, CommandOutput } from '../core/ports/agent.ts'
import type { Endpoint } from '../core/ports/driver.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { delay } from '../lib/clock.ts'
import { Pace } from '../lib/pace.ts'
import { createAgentTransport } from './transport.ts'

const longestQuote = 1000
/** Maximum pace for output: a command that prints without end must not keep the server busy. */
const outputPace = { bytesPerSecond: 8 * 1024 * 1024, burstBytes: 8 * 1024 * 1024 }
/** The cost of a message in addition to its bytes. */
const messageCost = 4096

export async function runProcess(
  agent: Endpoint,
  accessToken: string,
  command: AgentCommand,
  { onOutput, signal }: { onOutput?: (output: CommandOutput) => void; signal: AbortSignal },
): Promise<CommandEnd> {
  // Connect leaves the connection open when its reader stops: aborting closes it, however this ends.
  const leaving = new AbortController()
  const call = {
    headers: {
      authorization: `Basic ${Buffer.from(`${command.user}:`).toString('base64')}`,
      [header.accessToken]: accessToken,
    },
    signal: AbortSignal.any([signal, leaving.signal]),
  }
  const pace = new Pace(outputPace)
  const client = createClient(Process, createAgentTransport(agent, pace))
  let ended: CommandEnd | undefined
  try {
    for await (const { event } of client.start(startRequestOf(command), call)) {
      const message = event?.event
      const waitMs = pace.spend(messageCost)
      if (waitMs > 0) await delay(waitMs, signal)
      if (message?.case === 'end') ended = { exitCode: message.value.exitCode, status: message.value.status }
      if (message?.case !== 'data') continue
      const { case: stream, value } = message.value.output
      if (stream === 'stdout' || stream === 'stderr') onOutput?.({ stream, data: Buffer.from(value) })
    }
  } catch (error) {
    throw failureOf(error, signal)
  } finally {
    leaving.abort()
  }
  if (ended) return ended
  throw new AppError('unavailable', 'the agent did not say how the command ended')
}

function startRequestOf({
  command,
  shell = 'bash',
  user: _,
  cwd,
  envs,
  tag,
}: AgentCommand): MessageInitShape<typeof StartRequestSchema> {
  const [cmd, ...flags] = shell === 'bash' ? ['/bin/bash', '-l', '-c'] : ['/bin/sh', '-c']
  const process = { cmd, args: [...flags, command], envs, cwd }
  return { process, stdin: false, ...(tag !== undefined && { tag }) }
}

/** A failure that is not from the connection is the agent's own message. */
function failureOf(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason
  if (!(error instanceof ConnectError)) return error
  if (isAppError(error.cause)) return error.cause
  const said = error.rawMessage.slice(0, longestQuote)
  return new AppError('unprocessable', `${codeToString(error.code)}: ${said}`, { cause: error })
}
