/** Makes this Warren a node of a cluster, if configured: membership, and forwarding of requests. */
import type { IncomingMessage, ServerOptions } from 'node:http'
import { BuildPlacer } from '../../core/cluster/build-placer.ts'
import { EveryNode } from '../../core/cluster/every-node.ts'
import { FileSearch } from '../../core/cluster/file-search.ts'
import { Membership } from '../../core/cluster/membership.ts'
import { newNodeRunID, renewEveryMs } from '../../core/cluster/node.ts'
import { NodeDirectory } from '../../core/cluster/node-directory.ts'
import { NodeForgetter } from '../../core/cluster/node-forgetter.ts'
import { Placer } from '../../core/cluster/placer.ts'
import { Reachability } from '../../core/cluster/reachability.ts'
import { VolumePlacer } from '../../core/cluster/volume-placer.ts'
import { AppError, errorText, isAppError } from '../../lib/app-error.ts'
import type { HttpExchange } from '../../lib/http-relay/http-relay.ts'
import { newUUID } from '../../lib/ids.ts'
import type { RequestSource } from '../../lib/request-source.ts'
import { peerPort } from '../../peers/address.ts'
import { createAskNode } from '../../peers/ask-node.ts'
import { ClusterForwarder } from '../../peers/forwarder.ts'
import { requireOwnAddress } from '../../peers/own-address.ts'
import { PeerConnections } from '../../peers/peer-connections.ts'
import { openPeerIdentity, type PeerIdentity, requireSharedSecrets } from '../../peers/peer-identity.ts'
import { createAskForFile, createAskWhyUnfit, createHandOver } from '../../peers/peer-operations.ts'
import { createPeerServer, type PeerServer } from '../../peers/peer-server.ts'
import { PeerWatch } from '../../peers/peer-watch.ts'
import { QueuedRequests } from '../../peers/queued-requests.ts'
import type { Config } from '../config/config.ts'
import type { DataPaths, Node, Secrets } from '../data/data-folder.ts'
import type { Domain } from '../domain/domain.ts'
import { clusterLoops, reconcileAtOnce } from '../domain/loops.ts'
import { repeat } from '../domain/repeat.ts'
import { listen } from '../doors/http-server.ts'
import type { ChosenIsolation } from '../isolation/choose-isolation.ts'
import type { OpenedPorts } from '../ports/ports.ts'
import type { Closers } from '../process/shutdown.ts'
import { StartRefusal } from '../process/start-refusal.ts'
import { type ClusterDomain, closeForgottenRoutes, joinClusterDomain } from './cluster-domain.ts'
import { createLoadReader, readFacts } from './node-load.ts'

const forgetEveryMs = 30_000

export type ClusterParts = {
  config: Config
  paths: DataPaths
  node: Node
  folderID: string
  onReplaced: (problem: AppError) => void
  secrets: Secrets
  isolation: ChosenIsolation
  ports: OpenedPorts
  domain: Domain
}

export type Cluster = {
  nodeID: string
  identity: PeerIdentity
  membership: Membership
  peers: PeerWatch
  forwarder: ClusterForwarder
  placer: Placer<HttpExchange>
  everyNode: EveryNode<IncomingMessage>
  buildPlacer: BuildPlacer<HttpExchange>
  volumePlacer: VolumePlacer<HttpExchange>
  /** Finds sandboxes of other nodes by signed file URLs. */
  files: FileSearch
  takeOffered: ClusterDomain['takeOffered']
  whyUnfit: ClusterDomain['whyUnfit']
}

/** Undefined without a cluster. Rejects if this Warren may not join; the others have not seen it then. */
export async function joinCluster(parts: ClusterParts, closers: Closers): Promise<Cluster | undefined> {
  const { config, paths, node, folderID, onReplaced, secrets, isolation, ports, domain } = parts
  if (config.peerAddress === null) return undefined
  const { stores, vault, clock, log } = ports
  const { nodeID } = node
  await requireSharedSecrets(stores.nodes, secrets, vault)
  const identity = await openPeerIdentity(stores.nodes, vault, nodeID)
  await requireOwnAddress(stores.nodes, identity, { nodeID, address: config.peerAddress })
  const membership = new Membership({
    nodes: stores.nodes,
    clock,
    log,
    self: {
      nodeID,
      runID: newNodeRunID(folderID),
      address: config.peerAddress,
      facts: readFacts(isolation.isolation, ports),
    },
    readLoad: createLoadReader(ports, domain, paths.root),
    onForgotten: async () => {
      await closeForgottenRoutes(ports)
      await restoreBase(ports)
      // In the background: until the node has joined again, it gives no sign of life.
      void reconcileAtOnce(domain, log)
    },
    onReplaced,
  })
  await membership.join().catch((error) => {
    if (!isAppError(error, 'conflict')) throw error
    throw new StartRefusal(error.code, error.message, { cause: error })
  })
  closers.add('the node', () => membership.leave())
  closers.add('signs of life', membership.keepAlive())
  startForgetting(parts, membership, closers)
  const reachability = new Reachability(clock, ({ nodeID: peerID, why }) => {
    log.warn(
      { nodeID: peerID },
      `Node ${peerID} ${why}. Requests that it must answer fail until it is reached.`,
    )
  })
  const connections = new PeerConnections(identity, reachability)
  closers.add('connections to peers', async () => connections.close())
  const peers = new PeerWatch({ membership, connections, reachability })
  const retry = {
    job: 'reach nodes that could not be reached',
    pauseMs: renewEveryMs,
    work: () => peers.retry(),
  }
  closers.add('trying peers', repeat(retry, ports))
  const { drainer, router, takeOffered, whyUnfit } = joinClusterDomain({
    ports,
    domain,
    membership,
    handOver: createHandOver(connections),
    askWhyUnfit: createAskWhyUnfit(connections),
  })
  for (const loop of clusterLoops(membership, domain, drainer))
    closers.add(`the job '${loop.job}'`, repeat(loop, ports))
  if (drainer) closers.add('moving sandboxes off this node', async () => drainer.close())
  const queued = new QueuedRequests({ look: (peerID) => peers.look(peerID), clock })
  const forwarder = new ClusterForwarder({ membership, router, connections, queued, log })
  const placer = new Placer({
    catalog: domain.catalog,
    admission: domain.admission,
    membership,
    forwarder,
    owners: stores.owners,
    reachability,
    clock,
  })
  const everyNode = new EveryNode({ membership, ask: createAskNode(connections), log })
  const buildPlacer = new BuildPlacer({
    catalog: domain.catalog,
    membership,
    forwarder,
    owners: stores.owners,
  })
  const volumePlacer = new VolumePlacer({ membership, forwarder })
  const files = new FileSearch(membership, createAskForFile(connections))
  const placers = { placer, buildPlacer, volumePlacer }
  return {
    nodeID,
    identity,
    membership,
    peers,
    forwarder,
    ...placers,
    everyNode,
    files,
    takeOffered,
    whyUnfit,
  }
}

/** The builds of a forgotten node fail with it. Its base template is still there, and no start registers it again. */
async function restoreBase({ base, stores, clock }: OpenedPorts): Promise<void> {
  const [updatedAt, finishedAt] = [clock.now(), clock.now()]
  await stores.templates.transitionBuild(base.buildID, ['error'], 'ready', {
    reason: null,
    updatedAt,
    finishedAt,
  })
}

function startForgetting({ config, ports }: ClusterParts, membership: Membership, closers: Closers): void {
  const { forgetNodesAfterMinutes } = config
  if (forgetNodesAfterMinutes === null) return
  const forgetter = new NodeForgetter({
    nodes: ports.stores.nodes,
    leases: ports.stores.leases,
    clock: ports.clock,
    log: ports.log,
    membership,
    afterMs: forgetNodesAfterMinutes * 60_000,
  })
  const forget = { job: 'forget nodes', pauseMs: forgetEveryMs, work: () => forgetter.run() }
  closers.add('forgetting nodes', repeat(forget, ports))
}

/** Without a cluster, lists only this Warren as it is at that moment. */
export function createNodeDirectory(parts: ClusterParts, peers: PeerWatch | undefined): NodeDirectory {
  const { config, paths, node, isolation, ports, domain } = parts
  const { stores, clock } = ports
  const readLoad = createLoadReader(ports, domain, paths.root)
  const self = {
    nodeID: node.nodeID,
    runID: newUUID(),
    address: '',
    statusChangedAt: clock.now(),
    silentMs: 0,
    status: 'ready' as const,
    facts: readFacts(isolation.isolation, ports),
  }
  const readSelf = async () => ({ ...self, load: await readLoad() })
  const isAlone = config.peerAddress === null
  return new NodeDirectory({
    nodes: stores.nodes,
    owners: stores.owners,
    listLostVolumes: () => stores.lostVolumes.list(),
    readSelf: isAlone ? readSelf : undefined,
    findTroubles: peers && ((nodes) => peers.findTroubles(nodes)),
    clock,
  })
}

/** Opens the inner door. `attach` adds its handlers. */
export async function listenForPeers(
  { peerAddress, peerListen }: Config,
  { identity }: Cluster,
  options: ServerOptions,
  attach: (requests: RequestSource) => void,
  inherited: number | undefined,
): Promise<PeerServer> {
  const inner = createPeerServer(options, identity)
  const { server, requests } = inner
  attach(requests)
  const { host, port } = peerPort({ peerAddress, peerListen })
  await listen(server, host, port, inherited).catch((cause) => {
    if (cause instanceof StartRefusal) throw cause
    throw new AppError('unavailable', `Peers cannot be served on ${host}:${port}: ${errorText(cause)}`, {
      cause,
    })
  })
  return inner
}
