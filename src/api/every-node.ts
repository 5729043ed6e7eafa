/**
 * Requests that every node carries out for its own part: the node that got the request asks the others with
 * the same request, and combines the results.
 */
import type { FastifyRequest } from 'fastify'
import type { RouteContext } from './context.ts'

export type NodeParts<Part> = {
  /** This node's own part comes first. */
  parts: Part[]
  /** Nodes that are away or failed. */
  missing: string[]
}

/** Runs this node's part first: if it rejects, no other node is asked. */
export async function onEveryNode<Part>(
  context: Pick<RouteContext, 'cluster'>,
  request: FastifyRequest,
  doOwnPart: () => Promise<Part>,
): Promise<NodeParts<Part>> {
  const own = await doOwnPart()
  const { cluster } = context
  if (!cluster || isPartOfAnother(context, request)) return { parts: [own], missing: [] }
  const { answers, missing } = await cluster.everyNode.askOthers(request.raw, request.body)
  return { parts: [own, ...(answers as Part[])], missing }
}

/** True if another node answers the client and this node only does its own part. */
export const isPartOfAnother = (
  { cluster }: Pick<RouteContext, 'cluster'>,
  { raw }: FastifyRequest,
): boolean => cluster?.forwarder.isFromPeer(raw) ?? false

/** Adds counts by name. */
export function totalOf<Name extends string>(counts: readonly Record<Name, number>[]): Record<Name, number> {
  const total: Partial<Record<Name, number>> = {}
  for (const count of counts)
    for (const name of Object.keys(count) as Name[]) total[name] = (total[name] ?? 0) + count[name]
  return total as Record<Name, number>
}
