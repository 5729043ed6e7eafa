/** Requests for what another node owns go there, before anything of them is read or checked here. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Forwarder } from '../core/cluster/forwarder.ts'
import type { Owned } from '../core/cluster/node.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'

/** What a route says of itself, where its path does not say it. */
declare module 'fastify' {
  interface FastifyContextConfig {
    /** Every node knows the answer. */
    answeredByAny?: true
    /** The node that will build the template has it. */
    ownedByTemplate?: true
  }
}

export function passOnToOwners(app: FastifyInstance, forwarder: Forwarder): void {
  app.addHook('onRequest', async (request, reply) => {
    const what = ownedBy(request)
    if (what && (await forwarder.forward(what, exchangeOf(request, reply)))) reply.hijack()
  })
}

/** A continue was sent already, and the API takes no upgrades. */
export const exchangeOf = (request: FastifyRequest, reply: FastifyReply): HttpExchange => ({
  ...{ request: request.raw, response: reply.raw, awaitsContinue: false, upgrade: null },
})

function ownedBy({ routeOptions, params, query }: FastifyRequest): Owned | undefined {
  const { answeredByAny, ownedByTemplate } = routeOptions.config
  if (answeredByAny) return undefined
  const { sandboxID, buildID, volumeID, templateID, snapshotName } = params as Record<
    string,
    string | undefined
  >
  // Some clients write the id of a client behind that of the sandbox.
  if (sandboxID !== undefined) return { kind: 'sandbox', id: sandboxID.split('-', 1)[0]! }
  if (buildID !== undefined) return { kind: 'build', id: buildID }
  if (volumeID !== undefined) return { kind: 'volume', id: volumeID }
  if (snapshotName !== undefined) return { kind: 'quarantined', id: snapshotName }
  if (ownedByTemplate && templateID !== undefined) return { kind: 'template', id: templateID }
  // A link for an upload names the node that gave it.
  const { node } = query as { node?: unknown }
  return typeof node === 'string' && routeOptions.url?.startsWith('/build-files/')
    ? { kind: 'node', id: node }
    : undefined
}
