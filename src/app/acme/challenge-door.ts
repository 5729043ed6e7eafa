/** The plain port of a Warren with ACME: answers the authority's questions, and leads browsers to https. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'

const prefix = '/.well-known/acme-challenge/'
const maxConnections = 200
/** Look-ups under way; a stranger may ask for any token. */
const maxLookups = 20

type DoorParts = {
  /** With a port if clients need one. */
  domain: string
  readAnswer(token: string): Promise<string | undefined>
}

export function createChallengeDoor({ domain, readAnswer }: DoorParts): Server {
  const [name, port] = domain.split(':')
  let lookups = 0

  async function answerChallenge(token: string, response: ServerResponse): Promise<void> {
    if (lookups >= maxLookups) {
      answer(response, 503, 'Too many requests. Try again.')
      return
    }
    lookups++
    try {
      const found = await readAnswer(token)
      if (found === undefined) answer(response, 404, 'No order asks for this.')
      else answer(response, 200, found)
    } catch {
      answer(response, 503, 'The database does not answer. Try again.')
    } finally {
      lookups--
    }
  }

  function redirect({ url = '/', headers }: IncomingMessage, response: ServerResponse): void {
    const host = (headers.host ?? '').replace(/:\d+$/, '').toLowerCase()
    if (!/^[a-z0-9.-]+$/.test(host) || (host !== name && !host.endsWith(`.${name}`))) {
      answer(response, 404, 'This address serves another name.')
      return
    }
    const path = url.startsWith('/') ? url : '/'
    response.setHeader('Location', `https://${host}${port ? `:${port}` : ''}${path}`)
    answer(response, 308, 'Use https.')
  }

  const server = createServer((request, response) => {
    const { method = '', url = '/' } = request
    request.resume()
    if (method !== 'GET' && method !== 'HEAD') answer(response, 405, 'Use https.')
    else if (!url.startsWith(prefix)) redirect(request, response)
    else void answerChallenge(url.slice(prefix.length), response)
  })
  server.maxConnections = maxConnections
  server.headersTimeout = 10_000
  server.requestTimeout = 10_000
  return server
}

function answer(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    Connection: 'close',
  })
  response.end(text)
}
