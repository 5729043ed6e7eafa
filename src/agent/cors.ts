import type { IncomingMessage, ServerResponse } from 'node:http'

const exposed = 'Location, Cache-Control, X-Content-Type-Options'
const preflightSeconds = '7200'

/**
 * Browsers may call the agent from any origin: the token protects it, not the origin. Names and values
 * alternate, which is fastest for Node.
 */
export const openHeaders: readonly string[] = [
  ...['access-control-allow-origin', '*'],
  ...['access-control-expose-headers', exposed],
]

export function allowAllOrigins(response: ServerResponse): void {
  response.setHeader('access-control-allow-origin', '*')
  response.setHeader('access-control-expose-headers', exposed)
}

export function answerPreflight(request: IncomingMessage, response: ServerResponse): void {
  // Named one by one, because `*` does not cover Authorization.
  const headers = String(request.headers['access-control-request-headers'] ?? '*')
  response.writeHead(204, {
    'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
    'access-control-allow-headers': headers,
    'access-control-max-age': preflightSeconds,
    vary: 'Access-Control-Request-Headers',
  })
  response.end()
}
