/** Writes one log line for each request that changes something: who made it, what it was, and its outcome. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Log } from '../lib/log.ts'
import type { Authenticator } from './auth.ts'
import { loggedParams } from './sandbox-id.ts'

const readsOnly = new Set(['GET', 'HEAD', 'OPTIONS'])

export function auditChanges(app: FastifyInstance, auth: Authenticator, log: Log): void {
  app.addHook('onResponse', async (request, reply) => {
    const { method, routeOptions, params } = request
    if (readsOnly.has(method) || routeOptions.url === undefined) return
    const who = callerFields(request, auth)
    if (!who) return
    const what = {
      requestID: request.id,
      method,
      route: routeOptions.url,
      ...loggedParams(params),
      status: reply.statusCode,
    }
    log.info({ audit: true, ...who, ...what }, 'a request to change something was answered')
  })
}

/** Undefined if the request was not authenticated: then it changed nothing. */
function callerFields(request: FastifyRequest, auth: Authenticator): object | undefined {
  const caller = auth.callerOf(request)
  if (caller) {
    const { team, credential } = caller
    return { teamID: team.teamID, credential: credential.kind, credentialID: credential.id }
  }
  return auth.isOfAdmin(request) ? { credential: 'admin token' } : undefined
}
