import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { errorText } from '../../lib/app-error.ts'
import { fromSystemError } from '../errors.ts'
import { everybody } from '../memory-guard.ts'
import type { AgentLog } from './agent-log.ts'

/**
 * Logs a request that failed without its sender's fault. Leaves out its query, which may contain a signature.
 */
export function logFailure(log: AgentLog, request: IncomingMessage, error: unknown): void {
  const known = fromSystemError(error)
  if (known.code !== 'internal') return
  const path = (request.url ?? '').split('?', 1)[0]!
  const reason = known.cause === undefined ? known.message : errorText(known.cause)
  const fields = { logger: 'agent', event_type: 'request_failed', path }
  log.add('error', `${request.method} ${path} failed: ${reason}`, fields)
}

export function logFault(log: AgentLog, error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  log.add('error', `Fault in the agent: ${text}`, { logger: 'agent', event_type: 'agent_fault' })
}

/** `bytes` is the approximate memory of the process. */
export function logMemoryKill(log: AgentLog, pid: number, bytes: number): void {
  const name = pid === everybody ? 'all' : nameOf(pid)
  const size = `${Math.round(bytes / 1024 / 1024)} MiB`
  const who = pid === everybody ? 'all processes' : `process ${pid} (${name})`
  const message = `Memory ran out: killed ${who}, which held about ${size}`
  log.add('warn', message, { logger: 'agent', event_type: 'memory_kill', pid: String(pid), process: name })
}

/** Called after the kill, which could not wait: the process may have been reaped already. */
function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
  } catch {
    return 'unknown'
  }
}
