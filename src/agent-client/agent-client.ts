/** How the control plane speaks to the agent inside a sandbox: hand it its identity, ask whether it lives. */
import { type RequestOptions, request } from 'node:http'
import { header } from '../contract/constants.ts'
import type { AgentIdentity, AgentPort } from '../core/agent.ts'
import type { Endpoint } from '../core/driver.ts'
import { AppError, errorText, isAppError } from '../lib/app-error.ts'
import { delay } from '../lib/clock.ts'
import { withDeadline } from '../lib/deadline.ts'
import { type Answer, answerTo } from './answer.ts'
import { followLogs } from './follow-logs.ts'
import { runProcess } from './run-process.ts'
import { writeFile } from './write-file.ts'

/** A booting agent listens within a tenth of a second: asking often is cheap and saves most of the wait. */
const retryEveryMs = 4
/** A lost first packet is sent again by us after this long, not by the kernel after a second. */
const connectTimeoutMs = 200
const healthTimeoutMs = 1000

class NoConnection extends Error {}

export function createAgentClient(): AgentPort {
  return {
    async initialize(agent, identity, { deadlineMs, currentToken, signal }) {
      const shown = `${agent.host}:${agent.port}`
      let lastFailure = 'no answer yet'
      const work = async (deadline: AbortSignal): Promise<void> => {
        const stop = signal ? AbortSignal.any([deadline, signal]) : deadline
        for (;;) {
          stop.throwIfAborted()
          try {
            return accept(await postIdentity(agent, identity, currentToken, stop), shown)
          } catch (error) {
            if (isAppError(error)) throw error
            stop.throwIfAborted()
            lastFailure = errorText(error)
          }
          await delay(retryEveryMs, stop)
        }
      }
      await withDeadline(deadlineMs, '', work).catch((error) => {
        if (!isAppError(error, 'deadline_exceeded')) throw error
        throw new AppError(
          'deadline_exceeded',
          `the agent at ${shown} did not take its identity within ${deadlineMs} ms (${lastFailure}): ` +
            'the machine is overloaded or the sandbox did not boot',
        )
      })
    },

    async isHealthy(agent, withinMs = healthTimeoutMs) {
      const signal = AbortSignal.timeout(withinMs)
      for (;;) {
        try {
          const { status } = await call(agent, { method: 'GET', path: '/health' }, '', signal)
          return status === 204
        } catch (error) {
          // A busy sandbox may be slow to take a connection; one that refuses it has no agent.
          if (!(error instanceof NoConnection) || signal.aborted) return false
        }
      }
    },

    run: runProcess,
    writeFile,
    followLogs,
  }
}

function postIdentity(
  agent: Endpoint,
  identity: Partial<AgentIdentity>,
  currentToken: string | undefined,
  signal: AbortSignal,
): Promise<Answer> {
  const body = JSON.stringify(identity)
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...(currentToken !== undefined && { [header.accessToken]: currentToken }),
  }
  return call(agent, { method: 'POST', path: '/init', headers }, body, signal)
}

function accept({ status, text: said }: Answer, shown: string): void {
  if (status === 204) return
  if (status === 401) {
    throw new AppError('unauthenticated', `the agent at ${shown} already has another token: ${said}`)
  }
  throw new AppError('internal', `the agent at ${shown} refused its identity with ${status}: ${said}`)
}

/** One request on a connection of its own; nothing is kept open to a sandbox that may go at any time. */
function call(agent: Endpoint, options: RequestOptions, body: string, signal: AbortSignal): Promise<Answer> {
  const outgoing = request({ ...options, host: agent.host, port: agent.port, agent: false, signal })
  outgoing.on('socket', (socket) => {
    socket.setTimeout(connectTimeoutMs, () => outgoing.destroy(new NoConnection('no connection')))
    socket.once('connect', () => socket.setTimeout(0))
  })
  const answer = answerTo(outgoing)
  outgoing.end(body)
  return answer
}
