/** Opens the port of the server: the API, and the edge in front of sandboxes, on one listener. */
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { createApi } from '../../api/app.ts'
import type { Api, ApiParts } from '../../api/context.ts'
import type { LoneNode } from '../../core/cluster/lone-node.ts'
import type { NodeDirectory } from '../../core/cluster/node-directory.ts'
import type { ApiDocument } from '../../docs-site/api-reference.ts'
import type { DocsSite } from '../../docs-site/docs-site.ts'
import { createEdge } from '../../edge/edge.ts'
import { SignedFileSearch } from '../../edge/signed-file.ts'
import { AppError } from '../../lib/app-error.ts'
import type { RequestSource } from '../../lib/request-source.ts'
import { RequestsUnderWay } from '../../lib/requests-under-way.ts'
import type { McpDoor } from '../../mcp/mcp-http.ts'
import { answerOperation, type PeerOperations } from '../../peers/peer-operations.ts'
import type { PeerServer } from '../../peers/peer-server.ts'
import { type Cluster, listenForPeers } from '../cluster/cluster.ts'
import { type Config, inheritedSockets } from '../config/config.ts'
import type { Secrets } from '../data/data-folder.ts'
import type { Domain } from '../domain/domain.ts'
import { repeat } from '../domain/repeat.ts'
import { ClientConnections } from '../doors/client-connections.ts'
import { type ClosingDoors, closeDoors, finishWithinMs } from '../doors/close-doors.ts'
import { closeGently, createListener } from '../doors/http-server.ts'
import type { OpenedPorts } from '../ports/ports.ts'
import type { Closers } from '../process/shutdown.ts'
import { projectFolder } from '../project/project-folder.ts'
import { version } from '../project/version.ts'
import { addConnectionGauges } from '../telemetry/connection-gauges.ts'
import { countRequests } from '../telemetry/requests.ts'
import { addServerGauges } from '../telemetry/server-gauges.ts'
import { ServerHealth } from '../telemetry/server-health.ts'
import { createRenderMetrics } from '../telemetry/telemetry.ts'
import { certificateProblem, readTlsFiles, TlsWatch } from '../trust/tls-files.ts'

const lookAtCertificateEveryMs = 2000
const mebibyte = 1024 * 1024

type ListenParts = {
  config: Config
  secrets: Secrets
  ports: OpenedPorts
  domain: Domain
  cluster: Cluster | undefined
  loneNode: LoneNode | undefined
  nodes: NodeDirectory
  /** The parts that the dashboard needs beside the rest of the API. */
  dashboard: Pick<
    ApiParts,
    'openDashboard' | 'describeMachine' | 'examineMachine' | 'describeShares' | 'weakerIsolation'
  >
}

export type OpenedDoors = {
  /** Reaches the server from this machine. */
  url: string
  /**
   * Serves on, and tells load balancers and clients to use another server. If the port stays open for the next process,
   * resolves when the clients that use their connections know that they have to open others, or after some seconds.
   */
  askToLeave(): Promise<void>
}

export async function listen(parts: ListenParts, closers: Closers): Promise<OpenedDoors> {
  const { config, ports, domain, cluster, loneNode } = parts
  const { measures } = ports.telemetry
  const requests = countRequests(measures, config.accessLog, ports.log)
  const health = new ServerHealth({
    askStore: () => ports.stores.sandboxes.nextEnd('kill'),
    clock: ports.clock,
    log: ports.log,
  })
  addConnectionGauges(measures)
  addServerGauges(measures, {
    health,
    stores: ports.stores,
    routes: ports.routes,
    freeBytes: ports.freeBytes,
    warm: domain.warm,
    admission: domain.admission,
    diskGuard: domain.diskGuard,
    memoryGuard: domain.memoryGuard,
    gpus: () => ports.driver.gpus,
    version,
  })
  const edge = createEdge({
    routes: ports.routes,
    domain: config.domain,
    connectionLimit: config.connectionsPerSandbox,
    findResumable: domain.findResumable,
    findDemand: domain.findDemand,
    onFinished: requests.onFinished,
    forwarder: cluster?.forwarder ?? loneNode,
    findSigned: cluster && ((request, path) => findSigned(cluster, request, path)),
    log: ports.log,
  })
  const url = `${config.tlsCert ? 'https' : 'http'}://${reachableHost(config.host)}:${config.port}`
  const api = await openApi(parts, url, { ...requests, health })
  closers.add('the API', () => api.close())
  const listener = openListener(edge.serverOptions, config, ports, closers)
  edge.attach(listener.server, api.routing)
  const sockets = inheritedSockets()
  let inner: PeerServer | undefined
  let peers: ClientConnections | undefined
  const underWay = new RequestsUnderWay(ports.clock)
  underWay.watch(listener.server)
  // Where the port closes with this process, the next request of a client fails anyhow: nobody waits for it.
  const quietMs = sockets.door === undefined ? 0 : finishWithinMs
  closers.add('the doors', async () => {
    health.close()
    const doors: ClosingDoors['doors'][number][] = [(closing) => listener.close({ ...closing, quietMs })]
    if (inner) {
      const { server, rejectIdle: closeIdle } = inner
      doors.push((closing) => closeGently(server, { ...closing, closeIdle }))
      peers?.askToLeave()
    }
    const isInUse = () => listener.isInUse(quietMs)
    await closeDoors({ doors, underWay, isInUse, cutTunnels: () => edge.close() })
  })
  if (cluster) {
    const signedFiles = new SignedFileSearch(ports.routes, ports.clock)
    const operations: PeerOperations = {
      'take offered sandbox': cluster.takeOffered,
      'say why memory is unfit': cluster.whyUnfit,
      'find signed file': async ({ method, path }) => {
        const route = signedFiles.find(method, path)
        if (route === 'busy') throw new AppError('unavailable', 'Too many signed file links are looked up.')
        return route?.sandboxID
      },
    }
    const attach = (requests: RequestSource) =>
      edge.attach(requests, (request, response) => {
        if (!answerOperation(request, response, operations)) api.routing(request, response)
      })
    inner = await listenForPeers(config, cluster, edge.serverOptions, attach, sockets.peers)
    underWay.watch(inner.server)
    peers = new ClientConnections(inner.server, ports.clock)
  }
  await listener.listen(config.host, config.port, sockets.door)
  return {
    url,
    askToLeave: () => {
      health.close()
      // Peers need not be asked: no request of theirs is lost when the inner door closes.
      if (quietMs > 0) return listener.letLeave(quietMs)
      listener.askToLeave()
      return Promise.resolve()
    },
  }
}

/** Skipped for a request from a peer, which has searched already. */
const findSigned = async ({ forwarder, files }: Cluster, request: IncomingMessage, path: string) =>
  forwarder.isFromPeer(request) ? undefined : files.find({ method: request.method ?? 'GET', path })

function openListener(
  options: Parameters<typeof createListener>[0],
  { tlsCert, tlsKey, domain, acme }: Config,
  { clock, log }: OpenedPorts,
  closers: Closers,
) {
  if (!tlsCert || !tlsKey) return createListener(options, undefined)
  const files = { cert: tlsCert, key: tlsKey }
  const pair = readTlsFiles(files)
  const listener = createListener(options, pair)
  // The keeper of a certificate by ACME says itself what is wrong with it.
  const problem = acme === null ? certificateProblem(pair.cert, domain ?? '', clock.now()) : undefined
  if (problem) log.warn({ file: files.cert }, problem)
  const watch = new TlsWatch({ files, use: listener.useCertificate, log })
  const look = {
    job: 'look at the certificate',
    pauseMs: lookAtCertificateEveryMs,
    work: () => watch.check(),
  }
  closers.add('watching the certificate', repeat(look, { clock, log }))
  return listener
}

async function openApi(
  parts: ListenParts,
  url: string,
  watched: Pick<ApiParts, 'onAnswered' | 'health'>,
): Promise<Api> {
  const { config, secrets, ports, domain, cluster, loneNode, nodes } = parts
  const { stores, logs, buildFiles, clock, log } = ports
  let mcp: McpDoor | undefined
  const api = await createApi({
    catalog: domain.catalog,
    remover: domain.remover,
    templates: domain.templates,
    builds: domain.builds,
    builtIns: domain.builtIns,
    onDemand: domain.onDemand,
    pruner: domain.pruner,
    quarantine: domain.quarantine,
    volumes: domain.volumes,
    teams: domain.teams,
    accessTokens: domain.accessTokens,
    members: domain.members,
    audit: domain.audit,
    auditLines: stores.audit,
    trustedProxies: config.trustedProxies,
    teamRemover: domain.teamRemover,
    usage: domain.usage,
    usageCounter: domain.usageCounter,
    budgets: domain.budgets,
    tokens: domain.tokens,
    sandboxes: domain.service,
    metrics: stores.metrics,
    logs,
    buildFiles,
    clock,
    log,
    ...watched,
    renderMetrics: createRenderMetrics(ports.telemetry.measures, log),
    secrets: ports.secrets,
    cluster,
    loneNode,
    nodes,
    events: stores.events,
    webhooks: ports.webhooks.service,
    people: stores.people,
    signIn: ports.signIn,
    uploads: { secret: secrets.seed, maxBytes: config.maxUploadMB * mebibyte },
    sizes: {
      cpu: { usual: config.defaultCPU, max: config.maxCPU },
      memoryMB: { usual: config.defaultMemoryMB, max: config.maxMemoryMB },
      diskMB: { usual: config.defaultDiskMB, max: config.maxDiskMB },
    },
    adminToken: secrets.adminToken,
    requestsPerMinute: config.requestsPerMinute,
    allowInsecureSandboxes: config.allowInsecureSandboxes === 'yes',
    allowOlderClients: config.olderClients === 'yes',
    domain: config.domain ?? undefined,
    port: config.port,
    version,
    answerDocs: createAnswerDocs(),
    ...parts.dashboard,
    async answerMcp({ apiKey, teamID }, request, response, body) {
      // Loaded on first use; the certificate may have changed since.
      const { McpDoor } = await import('../../mcp/mcp-http.ts')
      mcp ??= new McpDoor(version)
      const certificate = config.tlsCert ? { certificate: readFileSync(config.tlsCert, 'utf8') } : {}
      await mcp.answer(teamID, { url, apiKey, ...certificate }, request, response, body)
    },
  })
  await api.ready()
  return api
}

/** An address to listen on is not always one to connect to. */
function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

/** Loads the site and its renderer at the first request. */
function createAnswerDocs(): ApiParts['answerDocs'] {
  let site: DocsSite | undefined
  return async (path, readApi) => {
    const { DocsSite } = await import('../../docs-site/docs-site.ts')
    site ??= new DocsSite(projectFolder, readApi as () => ApiDocument)
    return site.answer(path)
  }
}
