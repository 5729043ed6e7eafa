/**
 * The agent inside a sandbox (wire name: envd): one HTTP server that starts processes, reads and writes files
 * and relays to services on loopback. It knows nothing of teams, sandbox IDs or the control plane's rows.
 */
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http'
import { sshProtocol } from '../contract/constants.ts'
import { AppError } from '../lib/app-error.ts'
import { type Clock, systemClock } from '../lib/clock.ts'
import { requireToken } from './access.ts'
import { allowAllOrigins, answerPreflight } from './cors.ts'
import { sendError, sendJSON } from './errors.ts'
import type { FilesContext } from './files/files-request.ts'
import { readFileRoute } from './files/read-file.ts'
import { writeFilesRoute } from './files/write-files.ts'
import { Metadata } from './filesystem/metadata.ts'
import { Identity } from './identity.ts'
import { type InitFolders, initRoute } from './init-route.ts'
import { logFailure } from './log/agent-events.ts'
import { AgentLog } from './log/agent-log.ts'
import { streamLog } from './log/log-route.ts'
import type { ProcessOptions } from './process/service.ts'
import { openRelay, relayProtocol } from './relay.ts'
import type { Services } from './services.ts'
import type { SshDoor } from './ssh/ssh-door.ts'

type AgentOptions = Partial<InitFolders> & {
  /** The path of the addon for calls of the C library. */
  addon: string
  identity?: Identity
  clock?: Clock
  log?: AgentLog
  processes?: ProcessOptions
  /** Runs a first command through the given server. */
  rehearse?: (server: Server) => Promise<unknown>
  /** The command that serves one SSH connection; unless given, it is beside the agent. */
  sshCommand?: () => string[]
}

type Agent = { server: Server; identity: Identity; services(): Promise<Services> }

/** After this time, a sandbox without an owner has finished its start. */
const rehearsalAfterMs = 200

type RouteHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  query: URLSearchParams,
) => void | Promise<void>

export function createAgent(options: AgentOptions): Agent {
  const identity = options.identity ?? new Identity()
  const clock = options.clock ?? systemClock
  const metadata = new Metadata(options.addon)
  const log = options.log ?? new AgentLog(clock)
  let loading: Promise<Services> | undefined
  const services = () => {
    loading ??= import('./services.ts').then(({ createServices }) =>
      createServices(identity, options.addon, options.processes ?? {}, metadata, log),
    )
    return loading
  }
  const folders = { runFolder: options.runFolder ?? '/run/e2b', systemRoot: options.systemRoot ?? '/' }
  const rehearse = async () => {
    await services()
    // The first command is the owner's, and must not wait.
    if (identity.hasOwner) return
    const { rehearseCommand } = await import('./rehearsal.ts')
    // A second agent in this process, which is dropped after the rehearsal.
    const twin = createAgent({ ...options, identity: identity.withoutToken(), log: new AgentLog(clock) })
    await (options.rehearse ?? rehearseCommand)(twin.server)
  }
  const routes = createRoutes({ identity, clock, metadata, log, folders, services, rehearse })
  const route = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const [path, query] = splitOnce(request.url ?? '/', '?')
    const verb = `${request.method} ${path}`
    const open = request.method === 'OPTIONS' ? answerPreflight : find(routes.open, verb)
    if (!open) requireToken(identity, request)
    const handler = open ?? find(routes.guarded, verb)
    if (handler) {
      allowAllOrigins(response)
      return handler(request, response, new URLSearchParams(query))
    }
    const { rpc } = await services()
    if (!rpc(request, response, path)) throw new AppError('not_found', `there is no ${verb} here`)
  }
  const server = createServer(serverOptions, (request, response) => {
    route(request, response).catch((error) => {
      logFailure(log, request, error)
      if (!response.headersSent) allowAllOrigins(response)
      sendError(response, error)
    })
  })
  let sshDoor: Promise<SshDoor> | undefined
  const openSsh = async (): Promise<SshDoor> => {
    const { SshDoor } = await import('./ssh/ssh-door.ts')
    const { addon, processes, sshCommand } = options
    return new SshDoor({ identity, log, addon, command: sshCommand, onStart: processes?.onStart })
  }
  server.on('upgrade', (request, socket, head) => {
    if (request.headers.upgrade !== sshProtocol) return openRelay(identity, request, socket, head)
    sshDoor ??= openSsh()
    void sshDoor.then((door) => door.open(request, socket, head))
  })
  return { server, identity, services }
}

const serverOptions: ServerOptions = {
  // Uploads and streams may take any time, and nothing may wake an idle agent.
  requestTimeout: 0,
  headersTimeout: 0,
  keepAliveTimeout: 0,
  connectionsCheckingInterval: 2 ** 31 - 1,
  shouldUpgradeCallback: ({ headers }) =>
    headers.upgrade === relayProtocol || headers.upgrade === sshProtocol,
}

type RouteParts = FilesContext & {
  folders: InitFolders
  services(): Promise<Services>
  rehearse(): Promise<void>
}

/** The plain routes. Those under `open` check their caller themselves; the others require the token. */
function createRoutes(parts: RouteParts): Record<'open' | 'guarded', Record<string, RouteHandler>> {
  const { identity, clock, log, folders, services, rehearse } = parts
  const readFile: RouteHandler = (request, response, query) => readFileRoute(parts, request, response, query)
  return {
    open: {
      'GET /health': (_, response) => void response.writeHead(204, { 'cache-control': 'no-store' }).end(),
      'POST /init': async (request, response) => {
        const { isAnother } = await initRoute(identity, folders, request, response)
        if (isAnother) log.forget()
        // The log of a sandbox begins with its owner.
        if (identity.hasOwner) log.add('info', 'Agent ready', { logger: 'agent', event_type: 'agent_init' })
        // A first command will follow: prepares for it while the control plane answers its caller.
        response.once('close', () => void services().then(({ processes }) => processes.warmUp()))
        if (!identity.hasOwner) clock.after(rehearsalAfterMs, () => void rehearse())
      },
      'GET /files': readFile,
      'HEAD /files': readFile,
      'POST /files': (request, response, query) => writeFilesRoute(parts, request, response, query),
    },
    guarded: {
      'POST /files/compose': async (request, response) => {
        const { composeFilesRoute } = await import('./files/compose-files.ts')
        return composeFilesRoute(parts, request, response)
      },
      'GET /logs': (_, response, query) => streamLog(log, response, query),
      'GET /metrics': async (_, response) => {
        const { readMetrics } = await import('./metrics.ts')
        sendJSON(response, 200, await readMetrics(clock))
      },
      'GET /network-namespaces': async (_, response) => {
        const { findOtherNetworks } = await import('./network-namespaces.ts')
        const status = { none: 204, some: 409, unknown: 503 }[findOtherNetworks()]
        response.writeHead(status, { 'cache-control': 'no-store' }).end()
      },
      'GET /envs': (_, response) => sendJSON(response, 200, { ...identity.trustVars, ...identity.envVars }),
    },
  }
}

function find(handlers: Record<string, RouteHandler>, verb: string): RouteHandler | undefined {
  return Object.hasOwn(handlers, verb) ? handlers[verb] : undefined
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}
