/** Who may reach a port of a sandbox, and who may wake one that sleeps. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { envdPort, header } from '../contract/constants.ts'
import type { Route } from '../core/sandbox/routes.ts'
import { isInternalAgentPath } from './agent-paths.ts'
import {
  type EdgeAnswer,
  internalRoute,
  isPreflight,
  resumeRefused,
  trafficTokenMissing,
  trafficTokenWrong,
} from './answers.ts'
import type { SandboxDestination } from './host.ts'
import { isSignedFor } from './signed-file.ts'

type Asked = Pick<IncomingMessage, 'method' | 'headers'>
type Tokens = Pick<Route, 'agentToken' | 'trafficToken'>

/** Null: it may. The agent itself asks for its token. */
export function refusalOf(
  { headers }: Asked,
  { sandboxID, port, path }: SandboxDestination,
  { trafficToken }: Tokens,
): EdgeAnswer | null {
  if (port === envdPort) {
    return isInternalAgentPath(path) ? internalRoute(withoutQuery(path)) : null
  }
  if (trafficToken === null) return null
  const given = headers[header.trafficToken]
  if (given === undefined || given === '') return trafficTokenMissing(sandboxID)
  return isSame(String(given), trafficToken) ? null : trafficTokenWrong(sandboxID)
}

/** Null: it may. On the agent's port it must show what the agent would ask for once awake. */
export function wakeRefusalOf(
  request: Asked,
  destination: SandboxDestination,
  tokens: Tokens,
  nowMs: number,
): EdgeAnswer | null {
  const refusal = refusalOf(request, destination, tokens)
  if (refusal || destination.port !== envdPort) return refusal
  const { sandboxID, path } = destination
  const token = request.headers[header.accessToken]
  const welcome =
    token !== undefined
      ? isSame(String(token), tokens.agentToken)
      : withoutQuery(path) === '/files' && isSignedFor(tokens, request.method, path, nowMs)
  return welcome ? null : resumeRefused(sandboxID)
}

/**
 * Questions about a sandbox are no use of it: clients ask the agent's health to learn whether the sandbox runs,
 * and a browser's question comes without the credentials of the request that follows.
 */
export function wakesNobody(request: Asked, { port, path }: SandboxDestination): boolean {
  if (isPreflight(request)) return true
  return port === envdPort && request.method === 'GET' && withoutQuery(path) === '/health'
}

function withoutQuery(path: string): string {
  return path.split('?', 1)[0]!
}

/** Hashed first, so that neither content nor length shows in the time it takes. */
function isSame(given: string, expected: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}
