/** Decides who may reach a port of a sandbox, and who may wake a paused one. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { envdPort, header, interpreterPort } from '../contract/constants.ts'
import type { ResumableRoute } from '../core/sandbox/network/resumable-route.ts'
import type { Route } from '../core/sandbox/network/routes.ts'
import { isInternalAgentPath } from './agent-paths.ts'
import {
  type EdgeAnswer,
  isPreflight,
  resumeRejected,
  trafficTokenMissing,
  trafficTokenWrong,
} from './answers.ts'
import type { SandboxDestination } from './host.ts'
import { isSignedFor } from './signed-file.ts'

type Asked = Pick<IncomingMessage, 'method' | 'headers'>

/** Ports of Warren's own programs in a sandbox, which check its token. */
export const takesOwnToken = (port: number): boolean => port === envdPort || port === interpreterPort

/** True for routes of the agent that nobody outside may reach, whatever the credentials. */
export function leadsToInternalRoute({ port, path }: Pick<SandboxDestination, 'port' | 'path'>): boolean {
  return port === envdPort && isInternalAgentPath(path)
}

/** Null if the request is allowed. The agent itself checks its token. */
export function rejectionOf(
  { headers }: Asked,
  { sandboxID, port }: SandboxDestination,
  { trafficToken }: Pick<Route, 'trafficToken'>,
): EdgeAnswer | null {
  if (port === envdPort || trafficToken === null) return null
  const given = headers[header.trafficToken]
  if (given === undefined || given === '') return trafficTokenMissing(sandboxID)
  return isSame(String(given), trafficToken) ? null : trafficTokenWrong(sandboxID)
}

/**
 * The token to show the agent, or the code interpreter, for a client that is older than tokens. Undefined if the request shows a token
 * of its own, or if its host name does not have the client ID that stands for the token.
 */
export function tokenInHost(
  { headers }: Asked,
  { port, clientID }: SandboxDestination,
  { hostToken, agentToken }: Pick<ResumableRoute, 'hostToken' | 'agentToken'>,
): string | undefined {
  if (hostToken === undefined || agentToken === null || clientID === undefined) return undefined
  if (!takesOwnToken(port) || headers[header.accessToken] !== undefined) return undefined
  return isSame(clientID, hostToken) ? agentToken : undefined
}

/**
 * Null if the request may wake the sandbox. On the agent's port it must show the token that the agent would
 * require.
 */
export function wakeRejectionOf(
  request: Asked,
  destination: SandboxDestination,
  tokens: Pick<ResumableRoute, 'agentToken' | 'trafficToken' | 'hostToken'>,
  nowMs: number,
): EdgeAnswer | null {
  const rejection = rejectionOf(request, destination, tokens)
  if (rejection || destination.port !== envdPort) return rejection
  const { agentToken } = tokens
  if (agentToken === null) return null
  const { sandboxID, path } = destination
  const token = request.headers[header.accessToken] ?? tokenInHost(request, destination, tokens)
  const welcome =
    token !== undefined
      ? isSame(String(token), agentToken)
      : withoutQuery(path) === '/files' && isSignedFor({ agentToken }, request.method, path, nowMs)
  return welcome ? null : resumeRejected(sandboxID)
}

/**
 * Requests that the edge answers itself wake no sandbox: a preflight comes without the credentials of the
 * request that follows.
 */
export function neverReachesSandbox(request: Asked, destination: SandboxDestination): boolean {
  return isPreflight(request) || leadsToInternalRoute(destination)
}

function withoutQuery(path: string): string {
  return path.split('?', 1)[0]!
}

/** Hashes first, so that the time of the comparison reveals neither content nor length. */
function isSame(given: string, expected: string): boolean {
  return timingSafeEqual(digest(given), digest(expected))
}

const digest = (text: string) => createHash('sha256').update(text).digest()
