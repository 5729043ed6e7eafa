import type { FastifyRequest } from 'fastify'
import { type AppError, isAppError } from '../lib/app-error.ts'
import type { RouteContext } from './context.ts'
import { ownedBy } from './pass-on.ts'

type ExplainParts = Pick<RouteContext, 'auth' | 'loneNode' | 'cluster' | 'sandboxes' | 'volumes'>

/**
 * For a request that found nothing although the team has the object on another Warren: says where it is or,
 * in a cluster, that it has just moved there. Looks that up only in this case, so that a found object costs
 * no extra statement.
 */
export async function explainMissing(
  parts: ExplainParts,
  error: AppError,
  request: FastifyRequest,
): Promise<AppError> {
  const { auth, loneNode, cluster, sandboxes, volumes } = parts
  const team = auth.callerOf(request)?.team
  const what = ownedBy(request)
  if (!(loneNode || cluster) || !team || error.code !== 'not_found' || !what) return error
  try {
    if (what.kind === 'sandbox') await sandboxes.show(team, what.id)
    else if (!(await volumes.list(team)).some(({ volumeID }) => volumeID === what.id)) return error
    await loneNode?.requireReachable(what)
    return (await cluster?.forwarder.whyMissing(what, error)) ?? error
  } catch (cause) {
    if (isAppError(cause, 'misdirected')) return cause
  }
  return error
}
