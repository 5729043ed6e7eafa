/** Requests of which every node does its own part: the door asks the others with the same request, and adds up. */
import type { FastifyRequest } from 'fastify'
import type { RouteContext } from './context.ts'

export type NodeParts<Part> = {
  /** This node's own first. */
  parts: Part[]
  /** Nodes that are away or failed. */
  missing: string[]
}

/** The part of this node comes first: where it rejects, nobody else is asked. */
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

/** Another node answers the client; this one does its own part and no more. */
export const isPartOfAnother = (
  { cluster }: Pick<RouteContext, 'cluster'>,
  { raw }: FastifyRequest,
): boolean => cluster?.forwarder.isFromPeer(raw) ?? false

/** Adds up counts of the same names. */
export function totalOf<Name extends string>(counts: readonly Record<Name, number>[]): Record<Name, number> {
  const total: Partial<Record<Name, number>> = {}
  for (const count of counts)
    for (const name of Object.keys(count) as Name[]) total[name] = (total[name] ?? 0) + count[name]
  return total as Record<Name, number>
}
