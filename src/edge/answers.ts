/** The edge's own answers, with the contract's texts: JSON for programs, a small page for people. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { envdPort, header } from '../contract/constants.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { discardBody } from '../lib/http-relay/discard-body.ts'
import { MalformedHead } from '../lib/http-relay/headers.ts'
import { requestIDOf } from '../lib/request-id.ts'
import { type AgentCode, agentAnswer, type RenderedAnswer } from './agent-answer.ts'

export type EdgeAnswer = {
  status: number
  retryAfterSeconds?: number
  /** Set for requests to the agent of a sandbox that lives: its clients are told in the agent's protocol. */
  agentCode?: AgentCode
} & ({ text: string } | { json: { message: string } & Json; title: string; advice?: string })
type Json = Record<string, string | number>

export const invalidRequest = (text: string): EdgeAnswer => ({ status: 400, text })

export const routingFailed = (detail: string): EdgeAnswer => ({
  status: 500,
  text: `Unexpected error when routing request: ${detail}`,
})

export const sandboxNotFound = (sandboxId: string): EdgeAnswer => ({
  status: 502,
  title: 'Sandbox Not Found',
  advice: 'It has ended, it is paused, or its address is wrong.',
  json: { sandboxId, message: 'The sandbox was not found', code: 502 },
})

/** For a request that an access token alone leads to a sandbox. */
export const noSandboxOfToken: EdgeAnswer = {
  status: 502,
  title: 'Sandbox Not Found',
  json: { message: 'The sandbox was not found', code: 502 },
}

export const tokenOfOtherNode: EdgeAnswer = {
  status: 421,
  title: 'This sandbox is on another machine',
  json: {
    message:
      'No running sandbox of this machine has this access token, and the request does not name its sandbox. Update the client, or use a domain',
    code: 421,
  },
}

export const portClosed = (sandboxId: string, port: number): EdgeAnswer => ({
  status: 502,
  title: 'Port Not Open',
  advice: `There is no service running on port ${port}. Start one in the sandbox, and load this page again.`,
  json: { sandboxId, message: 'The sandbox is running but port is not open', port, code: 502 },
})

/** Must not contain the texts of the two answers above: clients distinguish the cases by them. */
const noAnswer = (sandboxId: string, port: number, message: string): EdgeAnswer => ({
  status: 502,
  title: 'No answer from the sandbox',
  json: { sandboxId, message, port, code: 502 },
})

/** `why` is a full sentence for the client. */
export const sandboxIsFrozen = (sandboxId: string, why: string): EdgeAnswer => ({
  status: 507,
  title: 'This sandbox is frozen',
  json: { sandboxId, message: why, code: 507 },
  retryAfterSeconds: 10,
})

export const upstreamFailed = (sandboxId: string, port: number): EdgeAnswer =>
  noAnswer(
    sandboxId,
    port,
    'The sandbox closed the connection before it answered. Check the service inside and try again',
  )

/** `fault` completes a sentence about the service. */
export const upstreamMalformed = (sandboxId: string, port: number, fault: string): EdgeAnswer =>
  noAnswer(sandboxId, port, `The service in the sandbox gave no answer that can be passed on: ${fault}`)

export const trafficTokenMissing = (sandboxId: string): EdgeAnswer => ({
  status: 403,
  title: 'Missing Traffic Access Token',
  json: trafficRejected(sandboxId, `Token header '${header.trafficToken}' is missing`),
})

export const trafficTokenWrong = (sandboxId: string): EdgeAnswer => ({
  status: 403,
  title: 'Invalid Traffic Access Token',
  json: trafficRejected(sandboxId, `Provided token in header '${header.trafficToken}' is invalid`),
})

const trafficRejected = (sandboxId: string, reason: string) => ({
  sandboxId,
  message: `Sandbox is secured with traffic access token. ${reason}`,
  header: header.trafficToken,
  code: 403,
})

export const tooManyConnections = (sandboxId: string, connectionLimit: number): EdgeAnswer => ({
  status: 429,
  title: 'Too many connections',
  json: {
    sandboxId,
    message: `The sandbox has too many concurrent incoming connections (limit: ${connectionLimit})`,
    connectionLimit,
    code: 429,
  },
})

export const resumeRejected = (sandboxId: string): EdgeAnswer => ({
  status: 403,
  title: 'This sandbox is asleep',
  json: {
    sandboxId,
    message:
      "This sandbox can't be resumed with the credentials provided. Check your access token and try again.",
    code: 403,
  },
})

export const stillTransitioning = (sandboxId: string): EdgeAnswer => ({
  status: 409,
  title: 'Not ready yet',
  json: { sandboxId, message: 'The sandbox is still transitioning. Try again in a moment.', code: 409 },
})

/** Waiting does not help; the slug tells clients what does. */
export const resumeImpossible = (sandboxId: string, message: string, slug: string): EdgeAnswer => ({
  status: 409,
  title: 'This sandbox cannot wake by itself',
  json: { sandboxId, message, code: 409, error_code: slug },
})

export const resumeLimited = (sandboxId: string, message: string): EdgeAnswer => ({
  status: 429,
  title: 'This sandbox cannot wake now',
  json: { sandboxId, message, code: 429 },
})

/** Another node has the sandbox and cannot be reached now. */
export function nodeUnreachable(sandboxId: string, port: number, error: unknown): EdgeAnswer {
  if (error instanceof MalformedHead) return { status: error.status, text: error.message }
  if (isAppError(error, 'misdirected')) {
    const title = 'This sandbox is on another machine'
    return { status: 421, title, json: { sandboxId, message: error.message, code: 421 } }
  }
  if (!isAppError(error, 'unavailable')) return routingFailed('the request could not be passed on')
  return {
    status: 503,
    title: 'This sandbox cannot be reached now',
    json: { sandboxId, message: error.message, code: 503 },
    retryAfterSeconds: error.retry?.afterSeconds ?? 1,
    ...(port === envdPort && { agentCode: error.retry?.should === false ? 'aborted' : 'resource_exhausted' }),
  }
}

/** For a request that the sandbox had not answered when its move to another node began. */
export const sandboxDeparts = (sandboxId: string, port: number): EdgeAnswer =>
  nodeUnreachable(sandboxId, port, departs)

const departs = new AppError(
  'unavailable',
  'The sandbox is on its way to another machine, where it goes on. It may have carried out the request; look before you try again.',
  { retry: { should: false, afterSeconds: 1 } },
)

export const internalRoute = (path: string): EdgeAnswer => ({
  status: 404,
  title: 'Not reachable from outside',
  json: {
    message:
      'This endpoint is reserved for the E2B control plane and is not reachable through the sandbox URL',
    path: path.split('?', 1)[0]!,
    code: 404,
  },
})

export const unknownSignature: EdgeAnswer = {
  status: 401,
  title: 'This link is not valid',
  json: { code: 401, message: 'invalid signature: it fits no running sandbox' },
}

/** Many signatures fitted no sandbox lately. This one may fit. */
export const tooManySignatures: EdgeAnswer = {
  status: 503,
  title: 'Too many links are being looked up',
  retryAfterSeconds: 1,
  json: { code: 503, message: 'Too many signed file links are being looked up. Try again in a moment' },
}

/** Lets scripts on any page read why a request failed. */
const openToAllOrigins = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Methods': '*',
  'Access-Control-Allow-Headers': '*',
  'Access-Control-Expose-Headers': '*',
}

export function sendAnswer(request: IncomingMessage, response: ServerResponse, answer: EdgeAnswer): void {
  // A browser hides the failure of a preflight, but shows that of the request itself.
  if (isPreflight(request)) {
    sendPreflight(request, response)
    return
  }
  const { agentCode } = answer
  const { status, type, body } = agentCode
    ? agentAnswer(request, agentCode, messageOf(answer))
    : rendered(request, answer)
  response.writeHead(status, {
    ...openToAllOrigins,
    'X-Request-Id': requestIDOf(request),
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'",
    ...(answer.status === 429 && { 'Retry-After': '1' }),
    ...(answer.retryAfterSeconds && { 'Retry-After': String(answer.retryAfterSeconds) }),
  })
  response.end(body)
  discardBody(request, response)
}

export function isPreflight({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
}

/** Lets a browser send the request it asks about; permissions are checked when that request comes. */
export function sendPreflight(request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(204, {
    ...openToAllOrigins,
    // A star would not cover Authorization.
    'Access-Control-Allow-Headers': request.headers['access-control-request-headers'] ?? '*',
    'X-Request-Id': requestIDOf(request),
    'Access-Control-Max-Age': '7200',
    Vary: 'Access-Control-Request-Headers',
  })
  response.end()
}

const messageOf = (answer: EdgeAnswer): string => ('text' in answer ? answer.text : answer.json.message)

function rendered(request: IncomingMessage, answer: EdgeAnswer): RenderedAnswer {
  const { status } = answer
  if ('text' in answer) return { status, type: 'text/plain; charset=utf-8', body: answer.text }
  if (isNavigation(request)) return { status, type: 'text/html; charset=utf-8', body: page(answer) }
  return { status, type: 'application/json; charset=utf-8', body: JSON.stringify(answer.json) }
}

/** True if a person opens the address in a browser, as opposed to a script or a program. */
function isNavigation({ headers }: IncomingMessage): boolean {
  if (!/mozilla|chrome|safari|firefox|edge|opera|msie/i.test(headers['user-agent'] ?? '')) return false
  const mode = headers['sec-fetch-mode']
  if ((mode !== undefined && mode !== 'navigate') || headers['x-requested-with'] || headers.upgrade)
    return false
  const accept = headers.accept ?? ''
  const json = accept.indexOf('application/json')
  const html = accept.indexOf('text/html')
  return json < 0 || (html >= 0 && html < json)
}

/** As in E2B's answers, the page begins with its element: some clients tell a page by that. */
function page({ status, title, advice, json }: Extract<EdgeAnswer, { title: string }>): string {
  const { message, sandboxId } = json
  const lines = [message, ...(advice === undefined ? [] : [advice])]
  return `<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)}</title>
<style>
  body { display: grid; place-items: center; min-height: 100vh; margin: 0; font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fafafa }
  main { max-width: 32rem; padding: 2rem; overflow-wrap: anywhere }
  h1 { margin: 0 0 .5rem; font-size: 1.4rem }
  small { color: #666 }
  @media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } small { color: #999 } }
</style>
<main>
  <h1>${escaped(title)}</h1>
  ${lines.map((line) => `<p>${escaped(line)}</p>`).join('\n  ')}
  <small>${sandboxId ? `Sandbox ${escaped(String(sandboxId))} · ` : ''}${status} · Warren</small>
</main>
</html>`
}

const escaped = (text: string): string => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)
