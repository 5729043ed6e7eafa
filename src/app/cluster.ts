/** Makes this Warren a node of a cluster, where a setting says so: who the others are, and how requests reach them. */
import type { Server, ServerOptions } from 'node:http'
import { Membership } from '../core/cluster/membership.ts'
import { renewEveryMs } from '../core/cluster/node.ts'
import { NodeDirectory } from '../core/cluster/node-directory.ts'
import { Owners } from '../core/cluster/owners.ts'
import { Placer } from '../core/cluster/placer.ts'
import { AppError } from '../lib/app-error.ts'
import { newUUID } from '../lib/ids.ts'
import { splitAddress } from '../peers/address.ts'
import { ClusterForwarder } from '../peers/forwarder.ts'
import { PeerConnections } from '../peers/peer-connections.ts'
import { openPeerIdentity, type PeerIdentity, requireSharedSecrets } from '../peers/peer-identity.ts'
import { createPeerServer } from '../peers/peer-server.ts'
import type { Config } from './config.ts'
import type { DataPaths, Node, Secrets } from './data-folder.ts'
import type { Domain } from './domain.ts'
import type { ChosenIsolation } from './isolation.ts'
import { createLoadReader, readFacts } from './node-load.ts'
import type { OpenedPorts } from './ports.ts'
import { repeatEvery } from './repeat.ts'
import type { Closers } from './shutdown.ts'

const closeGraceMs = 2000

export type ClusterParts = {
  config: Config
  paths: DataPaths
  node: Node
  secrets: Secrets
  isolation: ChosenIsolation
  ports: OpenedPorts
  domain: Domain
}

export type Cluster = {
  nodeID: string
  identity: PeerIdentity
  membership: Membership
  forwarder: ClusterForwarder
  placer: Placer
}

/** Undefined: this Warren is on its own. Rejects if it may not join; nothing of it was seen by others then. */
export async function joinCluster(parts: ClusterParts, closers: Closers): Promise<Cluster | undefined> {
  const { config, paths, node, secrets, isolation, ports, domain } = parts
  if (config.peerAddress === null) return undefined
  const { stores, vault, clock, log } = ports
  const { nodeID } = node
  await requireSharedSecrets(stores.nodes, secrets, vault)
  const identity = await openPeerIdentity(stores.nodes, vault, nodeID)
  const membership = new Membership({
    ...{ nodes: stores.nodes, clock, log },
    self: {
      ...{ nodeID, runID: newUUID(), address: config.peerAddress },
      facts: readFacts(isolation.isolation, ports),
    },
    readLoad: createLoadReader(ports, domain, paths.root),
    onForgotten: () => closeForgottenRoutes(ports),
  })
  await membership.join()
  closers.add('the node', () => membership.leave())
  closers.add(
    'signs of life',
    repeatEvery(renewEveryMs, 'tell the others that this node lives', log, () => membership.renew()),
  )
  const connections = new PeerConnections(identity)
  closers.add('connections to peers', async () => connections.close())
  const owners = new Owners(stores.owners, nodeID)
  const forwarder = new ClusterForwarder({
    ...{ membership, owners, connections, log },
    takeOver: async (sandboxID) => (await domain.archive?.mover.take(sandboxID, { memory: true })) ?? false,
  })
  const placer = new Placer({ ...domain, membership, forwarder, owners: stores.owners })
  return { nodeID, identity, membership, forwarder, placer }
}

/** Without a cluster it shows this Warren alone, as it is at that moment. */
export function createNodeDirectory(parts: ClusterParts): NodeDirectory {
  const { config, paths, node, isolation, ports, domain } = parts
  const { stores, clock } = ports
  const readLoad = createLoadReader(ports, domain, paths.root)
  const self = {
    ...{ nodeID: node.nodeID, runID: newUUID(), address: '', statusChangedAt: clock.now(), silentMs: 0 },
    status: 'ready' as const,
    facts: readFacts(isolation.isolation, ports),
  }
  const readSelf = async () => ({ ...self, load: await readLoad() })
  const isAlone = config.peerAddress === null
  return new NodeDirectory({ nodes: stores.nodes, readSelf: isAlone ? readSelf : undefined, clock })
}

/** What has ended by its row is reached by nobody any more; the reconciler ends the rest of it. */
async function closeForgottenRoutes({ stores, routes }: OpenedPorts): Promise<void> {
  const live = new Set((await stores.sandboxes.listUnended()).map(({ sandboxID }) => sandboxID))
  for (const { sandboxID, runID } of [...routes.values()])
    if (!live.has(sandboxID)) routes.remove(sandboxID, runID)
}

/** Opens the inner door. `attach` adds what it serves. */
export async function listenForPeers(
  { peerAddress, peerListen }: Config,
  { identity }: Cluster,
  options: ServerOptions,
  attach: (server: Server) => void,
  closers: Closers,
): Promise<void> {
  const server = createPeerServer(options, identity)
  attach(server)
  const { host, port } = splitAddress(peerListen ?? `0.0.0.0:${splitAddress(peerAddress!).port}`)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      reject(
        new AppError('unavailable', `Peers cannot be served on ${host}:${port}: ${cause.message}`, { cause }),
      )
    })
    server.listen({ host, port }, resolve)
  })
  closers.add('the inner door', () => closeServer(server))
}

function closeServer(server: ReturnType<typeof createPeerServer>): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => server.closeAllConnections(), closeGraceMs)
    server.close(() => {
      clearTimeout(cut)
      resolve()
    })
    server.closeIdleConnections()
  })
}
