/** Requests for what another node owns go there, before anything of them is read or checked here. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Forwarder } from '../core/cluster/forwarder.ts'
import type { Owned } from '../core/cluster/node.ts'
import { type AppError, isAppError } from '../lib/app-error.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import type { RouteContext } from './context.ts'

/** What a route says of itself, where its path does not say it. */
declare module 'fastify' {
  interface FastifyContextConfig {
    /** Every node knows the answer. */
    answeredByAny?: true
    /** What is asked for is the log of the sandbox in the path, which its last node has. */
    readsLog?: true
    /** The node that will build the template has it. */
    ownedByTemplate?: true
    /** It can be done to a paused sandbox whose memory cannot be used here, if it asks for no memory. */
    worksWithoutMemory?: true
  }
}

export function passOnToOwners(
  app: FastifyInstance,
  forwarder: Forwarder,
  context: Pick<RouteContext, 'auth' | 'sandboxes'>,
): void {
  const misfits = new WeakMap<FastifyRequest, Misfit>()
  app.addHook('onRequest', async (request, reply) => {
    const what = ownedBy(request)
    if (!what) return
    try {
      if (await forwarder.forward(what, exchangeOf(request, reply))) reply.hijack()
    } catch (error) {
      if (!isAppError(error, 'unprocessable') || !request.routeOptions.config.worksWithoutMemory) throw error
      misfits.set(request, { sandboxID: what.id, error })
    }
  })
  // Only here is it known who asks, and for what.
  app.addHook('preHandler', async (request) => {
    const misfit = misfits.get(request)
    if (!misfit) return
    await context.sandboxes.show(context.auth.teamOf(request), misfit.sandboxID)
    if (wantsMemory(request) || !(await forwarder.takeWithoutMemory(misfit.sandboxID))) throw misfit.error
  })
}

/** A paused sandbox of a node that is away, and why its memory cannot be used here. */
type Misfit = { sandboxID: string; error: AppError }

const wantsMemory = ({ method, body }: FastifyRequest): boolean =>
  method !== 'DELETE' && (body as { memory?: boolean } | undefined)?.memory !== false

/** A continue was sent already, and the API takes no upgrades. */
export const exchangeOf = (request: FastifyRequest, reply: FastifyReply): HttpExchange => ({
  ...{ request: request.raw, response: reply.raw, awaitsContinue: false, upgrade: null },
})

export function ownedBy({ routeOptions, params, query }: FastifyRequest): Owned | undefined {
  const { answeredByAny, readsLog, ownedByTemplate } = routeOptions.config
  if (answeredByAny) return undefined
  const { sandboxID, buildID, volumeID, templateID, snapshotName } = params as Record<
    string,
    string | undefined
  >
  // Some clients write the id of a client behind that of the sandbox.
  if (sandboxID !== undefined) return { kind: readsLog ? 'log' : 'sandbox', id: sandboxID.split('-', 1)[0]! }
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
