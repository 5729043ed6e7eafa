/**
 * The agent inside a sandbox (wire name: envd): one HTTP server that starts processes, reads and writes files
 * and relays to services on loopback. It knows nothing of teams, sandbox ids or the control plane's rows.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { AppError } from '../lib/app-error.ts'
import { type Clock, systemClock } from '../lib/clock.ts'
import { requireToken } from './access.ts'
import { allowAllOrigins, answerPreflight } from './cors.ts'
import { sendError, sendJSON } from './errors.ts'
import { readFileRoute } from './files/read-file.ts'
import { writeFilesRoute } from './files/write-files.ts'
import { Metadata } from './filesystem/metadata.ts'
import { Identity } from './identity.ts'
import { initRoute } from './init-route.ts'
import { logFailure } from './log/agent-events.ts'
import { AgentLog } from './log/agent-log.ts'
import { streamLog } from './log/log-route.ts'
import type { Tools } from './process/credentials.ts'
import type { ProcessOptions } from './process/service.ts'
import { openRelay, relayProtocol } from './relay.ts'
import type { Services } from './services.ts'

export type AgentOptions = {
  tools: Tools
  identity?: Identity
  clock?: Clock
  /** Where the sandbox's id and template are written for programs inside. */
  runFolder?: string
  /** Where the sandbox's own files begin. */
  systemRoot?: string
  log?: AgentLog
  processes?: ProcessOptions
}

export type Agent = { server: Server; identity: Identity; services(): Promise<Services> }

export function createAgent(options: AgentOptions): Agent {
  const identity = options.identity ?? new Identity()
  const clock = options.clock ?? systemClock
  const metadata = new Metadata(options.tools.addon)
  const log = options.log ?? new AgentLog(clock)
  const files = { identity, clock, metadata, log }
  const places = { runFolder: options.runFolder ?? '/run/e2b', systemRoot: options.systemRoot ?? '/' }
  let loading: Promise<Services> | undefined
  const services = () => {
    loading ??= import('./services.ts').then(({ createServices }) =>
      createServices(identity, options.tools, options.processes ?? {}, metadata, log),
    )
    return loading
  }

  async function route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { path, query } = target(request)
    const verb = `${request.method} ${path}`
    if (request.method === 'OPTIONS') return answerPreflight(request, response)
    if (verb === 'GET /health') return void response.writeHead(204, { 'cache-control': 'no-store' }).end()
    if (verb === 'POST /init') {
      const isAnother = await initRoute(identity, places, request, response)
      if (isAnother) log.forget()
      log.add('info', 'Agent ready', { logger: 'agent', event_type: 'agent_init' })
      // A first command will follow: what it needs is made ready while the control plane tells its caller.
      response.once('close', () => void services().then(({ processes }) => processes.warmUp()))
      return
    }
    if (verb === 'GET /files' || verb === 'HEAD /files') return readFileRoute(files, request, response, query)
    if (verb === 'POST /files') return writeFilesRoute(files, request, response, query)
    requireToken(identity, request)
    if (verb === 'POST /files/compose') {
      const { composeFilesRoute } = await import('./files/compose-files.ts')
      return composeFilesRoute(files, request, response)
    }
    if (verb === 'GET /logs') return streamLog(log, response, query)
    if (verb === 'GET /metrics') {
      const { readMetrics } = await import('./metrics.ts')
      return sendJSON(response, 200, await readMetrics(clock))
    }
    if (verb === 'GET /envs') return sendJSON(response, 200, identity.envVars)
    const { rpc } = await services()
    if (rpc(request, response, path)) return
    throw new AppError('not_found', `there is no ${verb} here`)
  }

  const server = createServer(
    {
      // Uploads and streams last as long as they last, and nothing may wake an idle agent.
      requestTimeout: 0,
      headersTimeout: 0,
      keepAliveTimeout: 0,
      connectionsCheckingInterval: 2 ** 31 - 1,
      shouldUpgradeCallback: (request) => request.headers.upgrade === relayProtocol,
    },
    (request, response) => {
      allowAllOrigins(response)
      route(request, response).catch((error) => {
        logFailure(log, request, error)
        sendError(response, error)
      })
    },
  )
  server.on('upgrade', (request, socket, head) => openRelay(identity, request, socket, head))
  return { server, identity, services }
}

function target(request: IncomingMessage): { path: string; query: URLSearchParams } {
  const [path, query] = splitOnce(request.url ?? '/', '?')
  return { path, query: new URLSearchParams(query) }
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}
