/**
 * Forwards requests for objects of other nodes before anything of them is read or checked here: the owner
 * checks them.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Forwarder } from '../core/cluster/forwarder.ts'
import type { Owned } from '../core/cluster/owner-store.ts'
import { isMigrating } from '../core/cluster/request-router.ts'
import { sandboxNotFound } from '../core/sandbox/row/errors.ts'
import { type AppError, isAppError } from '../lib/app-error.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import type { RouteContext } from './context.ts'

/** Properties of a route that its path does not tell. */
declare module 'fastify' {
  interface FastifyContextConfig {
    /** Every node can answer. */
    answeredByAny?: true
    /** The request is for the log of the sandbox in the path, which the sandbox's last node has. */
    readsLog?: true
    /** The node that will build the template owns it. */
    ownedByTemplate?: true
    /**
     * The route works for a paused sandbox whose memory this machine cannot use, if the request asks for no
     * memory.
     */
    worksWithoutMemory?: true
  }
}

/**
 * Holds back a request that the owner cannot answer until the client is authorized: before that, this node
 * takes nothing over, and nobody learns that the object exists.
 */
export function passOnToOwners(
  app: FastifyInstance,
  forwarder: Forwarder<HttpExchange>,
  context: Pick<RouteContext, 'auth' | 'sandboxes'>,
): void {
  const passable = new WeakMap<FastifyRequest, PassableRequest>()
  const misfits = new WeakMap<FastifyRequest, Misfit>()
  app.addHook('onRequest', async (request, reply) => {
    const what = ownedBy(request)
    if (!what) return
    try {
      const forwarded = await forwarder.forward(what, exchangeOf(request, reply))
      if (forwarded === 'answered') reply.hijack()
      if (forwarded === 'absent') passable.set(request, { what, error: undefined })
    } catch (error) {
      if (!isAppError(error)) throw error
      passable.set(request, { what, error })
    }
  })
  // Runs after the route has authorized the client, and before the body is read.
  app.addHook('preParsing', async (request, reply) => {
    const found = passable.get(request)
    if (!found) return
    const { what, error } = found
    if (!(await mayUse(context, request, what))) {
      // Answered as if there were no such sandbox, unless the attempt to reach the owner has consumed the
      // body.
      if (request.raw.readableDidRead) throw sandboxNotFound(what.id)
      return
    }
    if (error) throw error
    const isSettled = await forwarder.takeOver(what.id, { memory: true }).catch((cause) => {
      if (!isAppError(cause, 'unprocessable') || !request.routeOptions.config.worksWithoutMemory) throw cause
      misfits.set(request, { sandboxID: what.id, error: cause })
      return true
    })
    if (isSettled) return
    const forwarded = await forwarder.forward(what, exchangeOf(request, reply))
    if (forwarded === 'absent') throw isMigrating(what)
    if (forwarded === 'answered') reply.hijack()
  })
  // The request's options are known only here.
  app.addHook('preHandler', async (request) => {
    const misfit = misfits.get(request)
    if (!misfit) return
    if (wantsMemory(request)) throw misfit.error
    const { sandboxID } = misfit
    if (!(await forwarder.takeOver(sandboxID, { memory: false })))
      throw isMigrating({ kind: 'sandbox', id: sandboxID })
  })
}

/**
 * A request that the owner cannot answer, and why; undefined if the owner is away and this node can take the
 * sandbox over.
 */
type PassableRequest = { what: Owned; error: AppError | undefined }

/** A paused sandbox of a node that is away, and why this machine cannot use its memory. */
type Misfit = { sandboxID: string; error: AppError }

async function mayUse(
  { auth, sandboxes }: Pick<RouteContext, 'auth' | 'sandboxes'>,
  request: FastifyRequest,
  { kind, id }: Owned,
): Promise<boolean> {
  if (kind !== 'sandbox' && kind !== 'log') return true
  return (await sandboxes.ownedBy(auth.teamOf(request), [id])).length > 0
}

const wantsMemory = ({ method, body }: FastifyRequest): boolean =>
  method !== 'DELETE' && (body as { memory?: boolean } | undefined)?.memory !== false

/** A continue was sent already, and the API accepts no upgrades. */
export const exchangeOf = (request: FastifyRequest, reply: FastifyReply): HttpExchange => ({
  request: request.raw,
  response: reply.raw,
  awaitsContinue: false,
  upgrade: null,
})

export function ownedBy({ routeOptions, params, query }: FastifyRequest): Owned | undefined {
  const { answeredByAny, readsLog, ownedByTemplate } = routeOptions.config
  if (answeredByAny) return undefined
  const { sandboxID, buildID, volumeID, templateID, snapshotName, lostVolumeID } = params as Record<
    string,
    string | undefined
  >
  // Some clients append a client ID to the sandbox ID.
  if (sandboxID !== undefined) return { kind: readsLog ? 'log' : 'sandbox', id: sandboxID.split('-', 1)[0]! }
  if (buildID !== undefined) return { kind: 'build', id: buildID }
  if (volumeID !== undefined) return { kind: 'volume', id: volumeID }
  if (snapshotName !== undefined) return { kind: 'quarantined', id: snapshotName }
  if (lostVolumeID !== undefined) return { kind: 'lost volume', id: lostVolumeID }
  if (ownedByTemplate && templateID !== undefined) return { kind: 'template', id: templateID }
  // An upload link names the node that issued it.
  const { node } = query as { node?: unknown }
  return typeof node === 'string' && routeOptions.url?.startsWith('/build-files/')
    ? { kind: 'node', id: node }
    : undefined
}
