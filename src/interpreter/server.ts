/** The code interpreter's HTTP server, with the protocol of its clients. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { header } from '../contract/constants.ts'
import { AppError, errorText, isAppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import type { Context, ContextParts } from './context.ts'
import { Contexts } from './contexts.ts'
import { ExecutionStream } from './execution-stream.ts'
import { normalLanguage } from './languages.ts'
import { InvalidBody, readContextRequest, readExecuteRequest } from './requests.ts'

type InterpreterOptions = ContextParts & { clock: Clock }

type Interpreter = {
  server: Server
  /** Creates the initial contexts. */
  start(): Promise<void>
  close(): Promise<void>
}

const defaultLanguages = ['python', 'javascript']

export function createInterpreter({ clock, ...parts }: InterpreterOptions): Interpreter {
  const contexts = new Contexts(parts)
  let isReady = false
  const server = createServer((request, response) => {
    allowAllOrigins(request, response)
    route(request, response).catch((error) => answerError(response, error))
  })

  async function route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', 'http://interpreter')
    const [, noun, id, verb, ...more] = pathname.split('/')
    const shape = `${request.method} /${noun}${id === undefined ? '' : '/ID'}${verb === undefined ? '' : `/${verb}`}`
    switch (more.length === 0 ? shape : '') {
      case 'GET /health':
        return isReady ? answer(response, 200, 'OK') : answerText(response, 503, 'The kernels are starting')
      case 'POST /execute':
        return execute(request, response)
      case 'GET /contexts':
        return answer(response, 200, contexts.list().map(presentContext))
      case 'POST /contexts': {
        const { language, cwd } = await readContextRequest(request)
        const wanted = { language: normalLanguage(language), cwd: cwd ?? parts.homeFolder }
        return answer(response, 200, presentContext(await contexts.create(wanted)))
      }
      case 'DELETE /contexts/ID':
        contexts.remove(id!)
        return answer(response, 200, null)
      case 'POST /contexts/ID/restart':
        await contexts.find(id!).restart()
        return answer(response, 200, null)
      default:
        if (request.method === 'OPTIONS') return answerText(response, 204, '')
        throw new AppError('not_found', 'Not Found')
    }
  }

  async function execute(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { code, language, contextID, variables } = await readExecuteRequest(request)
    if (contextID !== undefined && language !== undefined) {
      throw new AppError('invalid_argument', 'Only one of context_id or language can be provided')
    }
    const accessToken = request.headers[header.accessToken]
    const token = typeof accessToken === 'string' ? accessToken : undefined
    // Read for each request: a fork has our memory and another token.
    await parts.readVariables(token)
    const context = contextID !== undefined ? contexts.find(contextID) : await defaultFor(language)
    await context.started.catch(() => {})
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    const stream = new ExecutionStream(response, context, clock)
    try {
      await context.execute({ code, variables, accessToken: token, signal: gone.signal }, stream)
    } catch (error) {
      stream.fail('UnexpectedEndOfExecution', errorText(error))
    }
    stream.end()
  }

  function defaultFor(language: string | undefined): Promise<Context> {
    return contexts.defaultOf(normalLanguage(language))
  }

  return {
    server,
    async start() {
      for (const language of defaultLanguages) await contexts.defaultOf(language)
      isReady = true
    },
    async close() {
      contexts.close()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const presentContext = ({ id, language, cwd }: Context) => ({ id, language, cwd })

/**
 * The edge, and the sandbox's token for running code, protect the port; the origin does not. Clients send the
 * token only with executions, so everybody who reaches the port may list, create, restart and remove
 * contexts.
 */
function allowAllOrigins(request: IncomingMessage, response: ServerResponse): void {
  response.setHeader('access-control-allow-origin', '*')
  if (request.method !== 'OPTIONS') return
  response.setHeader('access-control-allow-methods', 'GET, POST, DELETE')
  response.setHeader(
    'access-control-allow-headers',
    String(request.headers['access-control-request-headers'] ?? '*'),
  )
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** All that JavaScript clients before 2.0 print of a 401, and they alone send no token. */
const noToken = 'Unauthorized: update the client, or allow older ones by WARREN_OLDER_CLIENTS=yes'

function answerText(response: ServerResponse, status: number, text: string): void {
  if (status === 401) response.statusMessage = noToken
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text)
}

function answerError(response: ServerResponse, error: unknown): void {
  if (response.headersSent) response.destroy()
  else if (error instanceof InvalidBody) answer(response, 422, { detail: error.message })
  else answerText(response, statusFor(error), errorText(error))
}

function statusFor(error: unknown): number {
  if (isAppError(error, 'not_found')) return 404
  if (isAppError(error, 'unauthenticated')) return 401
  return isAppError(error, 'invalid_argument') ? 400 : 500
}
