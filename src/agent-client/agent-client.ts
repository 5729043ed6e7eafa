/** The control plane's calls to the agent inside a sandbox: hand over its identity, check its health. */
import { header } from '../contract/constants.ts'
import type { AgentIdentity, AgentPort, InitializeOptions, OtherNetworks } from '../core/ports/agent.ts'
import type { Endpoint } from '../core/ports/driver.ts'
import { AppError, errorText, isAppError } from '../lib/app-error.ts'
import { delay } from '../lib/clock.ts'
import { withDeadline } from '../lib/deadline.ts'
import { BootTimes } from './boot-times.ts'
import { createLogFollower } from './follow-logs.ts'
import {
  type AgentAnswer,
  type AgentRequestOptions,
  answerTo,
  NoConnection,
  openConnection,
  requestAgent,
} from './request.ts'
import { runProcess } from './run-process.ts'
import { writeFile } from './write-file.ts'

/**
 * The wait between two attempts, as a share of the time waited so far: this bounds how late a booted agent is
 * noticed, and many agents that boot at once are not slowed down further by attempts.
 */
const retryShare = 0.08
const shortestWaitMs = 4
const longestWaitMs = 50
/** After this time we send a lost first packet again; the kernel would wait a second. */
const connectTimeoutMs = 200
const healthTimeoutMs = 1000

export function createAgentClient(): AgentPort {
  const bootTimes = new BootTimes()
  return {
    initialize: (...given) => initialize(bootTimes, ...given),
    isHealthy,
    findOtherNetworks,
    run: runProcess,
    writeFile,
    followLogs: createLogFollower(),
  }
}

async function initialize(
  bootTimes: BootTimes,
  agent: Endpoint,
  identity: Partial<AgentIdentity>,
  { deadlineMs, currentToken, signal }: InitializeOptions,
): Promise<void> {
  const shown = `${agent.host}:${agent.port}`
  const startedAt = performance.now()
  let lastFailure = 'no answer yet'
  const work = async (deadline: AbortSignal): Promise<void> => {
    const stop = signal ? AbortSignal.any([deadline, signal]) : deadline
    for (let tries = 1; ; tries++) {
      stop.throwIfAborted()
      try {
        const answer = await postIdentity(agent, identity, currentToken, stop)
        if (tries > 1) bootTimes.add(performance.now() - startedAt)
        return accept(answer, shown)
      } catch (error) {
        if (isAppError(error)) throw error
        stop.throwIfAborted()
        lastFailure = errorText(error)
      }
      // The first refused connection says that the agent is not up yet.
      const knownMs = tries === 1 ? bootTimes.waitMs : 0
      const shareMs = Math.min(retryShare * (performance.now() - startedAt), longestWaitMs)
      await delay(Math.max(shortestWaitMs, knownMs, shareMs), stop)
    }
  }
  await withDeadline(deadlineMs, '', work).catch((error) => {
    if (!isAppError(error, 'deadline_exceeded')) throw error
    throw new AppError(
      'deadline_exceeded',
      `the agent at ${shown} did not accept its identity within ${deadlineMs} ms (${lastFailure}): ` +
        'the machine is overloaded or the sandbox did not boot',
    )
  })
}

async function isHealthy(
  agent: Endpoint,
  { withinMs = healthTimeoutMs, signal: called }: { withinMs?: number; signal?: AbortSignal } = {},
): Promise<boolean> {
  const deadline = AbortSignal.timeout(withinMs)
  const signal = called ? AbortSignal.any([deadline, called]) : deadline
  return (await statusOf(agent, { method: 'GET', path: '/health', signal })) === 204
}

/** An agent without this route is from a time when root could not make network namespaces, so its sandbox has none. */
const networksByStatus: Record<number, OtherNetworks> = { 204: 'none', 404: 'none', 409: 'some' }

async function findOtherNetworks(
  agent: Endpoint,
  accessToken: string,
  { withinMs, signal: called }: { withinMs: number; signal: AbortSignal },
): Promise<OtherNetworks> {
  const signal = AbortSignal.any([AbortSignal.timeout(withinMs), called])
  const headers = { [header.accessToken]: accessToken }
  const status = await statusOf(agent, { method: 'GET', path: '/network-namespaces', headers, signal })
  return networksByStatus[status ?? 0] ?? 'unknown'
}

/** Undefined when no answer came. */
async function statusOf(agent: Endpoint, options: AgentRequestOptions): Promise<number | undefined> {
  for (;;) {
    try {
      return (await call(agent, options, '')).status
    } catch (error) {
      // A busy sandbox may be slow to accept a connection; one that refuses it has no agent.
      if (!(error instanceof NoConnection) || options.signal.aborted) return undefined
    }
  }
}

function postIdentity(
  agent: Endpoint,
  identity: Partial<AgentIdentity>,
  currentToken: string | undefined,
  signal: AbortSignal,
): Promise<AgentAnswer> {
  const body = JSON.stringify(identity)
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...(currentToken !== undefined && { [header.accessToken]: currentToken }),
  }
  return call(agent, { method: 'POST', path: '/init', headers, signal }, body)
}

function accept({ status, text }: AgentAnswer, shown: string): void {
  if (status === 204) return
  if (status === 401) {
    throw new AppError('unauthenticated', `the agent at ${shown} already has another token: ${text}`)
  }
  throw new AppError('internal', `the agent at ${shown} rejected its identity with ${status}: ${text}`)
}

/**
 * Opens the connection first: a booting agent refuses many, and a request costs several times as much as a
 * connection.
 */
async function call(agent: Endpoint, options: AgentRequestOptions, body: string): Promise<AgentAnswer> {
  const connection = await openConnection(agent, connectTimeoutMs, options.signal)
  const outgoing = requestAgent(agent, { ...options, connection })
  const answer = answerTo(outgoing)
  outgoing.end(body)
  return answer
}
