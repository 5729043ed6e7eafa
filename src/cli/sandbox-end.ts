/** Why a sandbox ended or stopped while a command ran in it, in words for the person who ran the command. */
import { isAppError } from '../lib/app-error.ts'
import { delay } from '../lib/clock.ts'
import { CommandFailure } from './command-failure.ts'
import { plainLines } from './output.ts'
import type { TeamClient } from './team-client.ts'

/** The server may learn of an end, and log its reason, a moment after the connection broke off. */
const attempts = 8
const attemptEveryMs = 250

export class SandboxEnded extends CommandFailure {
  /** A paused sandbox can be resumed. */
  readonly isPaused: boolean
  readonly reason: string | undefined

  constructor(message: string, { isPaused = false, reason }: { isPaused?: boolean; reason?: string }) {
    super(message, 125)
    this.isPaused = isPaused
    this.reason = reason
  }
}

/**
 * Undefined if the sandbox still runs, or if the server does not say. After a connection that broke off, it asks
 * several times.
 */
export async function explainEnd(
  client: TeamClient,
  sandboxID: string,
  isBroken: boolean,
): Promise<SandboxEnded | undefined> {
  let state = await stateOf(client, sandboxID)
  for (let attempt = 1; isBroken && state === 'running' && attempt < attempts; attempt++) {
    await delay(attemptEveryMs)
    state = await stateOf(client, sandboxID)
  }
  if (state === 'paused') {
    const how = `\`warren sandbox resume ${sandboxID}\` lets it go on, \`warren sandbox kill ${sandboxID}\` ends it.`
    return new SandboxEnded(`The sandbox was paused while the command ran. ${how}`, { isPaused: true })
  }
  return state === 'ended' ? describeEnd(client, sandboxID) : undefined
}

async function stateOf(client: TeamClient, sandboxID: string): Promise<string | undefined> {
  try {
    return (await client.getSandbox(sandboxID)).state
  } catch (error) {
    return isAppError(error, 'not_found') ? 'ended' : undefined
  }
}

async function describeEnd(client: TeamClient, sandboxID: string): Promise<SandboxEnded> {
  for (let attempt = 0; attempt < attempts; attempt++) {
    if (attempt > 0) await delay(attemptEveryMs)
    const asked = { limit: 10, direction: 'backward' } as const
    const entries = await client.readLogs(sandboxID, asked).catch(() => [])
    const end = entries.find(({ fields }) => fields.event_type === 'sandbox_ended')
    if (!end) continue
    const { reason } = end.fields
    if (reason === 'killed') return new SandboxEnded('The sandbox was killed while the command ran.', {})
    const why = plainLines(end.message).replace(/^Sandbox ended: /, '')
    const full = `The sandbox ended while the command ran: ${why.replace(/\.$/, '')}.`
    return new SandboxEnded(full, reason === undefined ? {} : { reason })
  }
  return new SandboxEnded('The sandbox ended while the command ran.', {})
}
