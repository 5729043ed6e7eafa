/**
 * Requests that every node carries out for its own part: the node that got the request asks the others with
 * the same request, and combines the results.
 */
import type { FastifyRequest } from 'fastify'
import type { Team } from '../core/team/team.ts'
import type { RouteContext } from './context.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The node that gets the request asks all others with it. */
    askedOfEveryNode?: true
  }
}

type NodeParts<Part> = {
  /** This node's own part comes first. */
  parts: Part[]
  /** Nodes that are away or failed. */
  missing: string[]
  /** Other nodes that did their part. */
  reached: string[]
}

/** Every sandbox that moves during the request may cost another round. */
const maxRounds = 3

/** Runs this node's part first: if it rejects, no other node is asked. */
export async function onEveryNode<Part>(
  context: Pick<RouteContext, 'cluster'>,
  request: FastifyRequest,
  doOwnPart: () => Promise<Part>,
): Promise<NodeParts<Part>> {
  const own = await doOwnPart()
  const { cluster } = context
  if (!cluster || isPartOfAnother(context, request)) return { parts: [own], missing: [], reached: [] }
  const { answers, missing, reached } = await cluster.everyNode.askOthers(request.raw, request.body)
  return { parts: [own, ...(answers as Part[])], missing, reached }
}

/**
 * Repeats the request while sandboxes of a team are left on the nodes that did their part: one that moves meanwhile may
 * be on neither of its two nodes when each looks. Returns the parts of all rounds, the last one last.
 */
export async function onEveryNodeUntilNoneLeft<Part>(
  context: Pick<RouteContext, 'cluster' | 'teamRemover'>,
  request: FastifyRequest,
  team: Team,
  doOwnPart: () => Promise<Part>,
): Promise<NodeParts<Part>[]> {
  const rounds: NodeParts<Part>[] = []
  const { cluster, teamRemover } = context
  for (let round = 0; round < maxRounds; round++) {
    const done = await onEveryNode(context, request, doOwnPart)
    rounds.push(done)
    if (!cluster || isPartOfAnother(context, request)) break
    if ((await teamRemover.leftOn(team, [cluster.nodeID, ...done.reached])).sandboxes === 0) break
  }
  return rounds
}

/** True if another node answers the client and this node only does its own part. */
export const isPartOfAnother = (
  { cluster }: Pick<RouteContext, 'cluster'>,
  { raw }: FastifyRequest,
): boolean => cluster?.forwarder.isFromPeer(raw) ?? false

/** True if this node does its part of a request that every node gets. The node that has the client has its line in the audit. */
export const isPartOfEveryNode = (context: Pick<RouteContext, 'cluster'>, request: FastifyRequest): boolean =>
  request.routeOptions.config.askedOfEveryNode === true && isPartOfAnother(context, request)

/** Adds counts by name. */
export function totalOf<Name extends string>(counts: readonly Record<Name, number>[]): Record<Name, number> {
  const total: Partial<Record<Name, number>> = {}
  for (const count of counts)
    for (const name of Object.keys(count) as Name[]) total[name] = (total[name] ?? 0) + count[name]
  return total as Record<Name, number>
}
