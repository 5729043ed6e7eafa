/** Gives every request an ID, and reports each answer for metrics and logs. */
import type { FastifyInstance } from 'fastify'
import { onBehalfOf, requestIDHeaders } from '../lib/request-id.ts'
import type { Authenticator } from './auth.ts'
import { loggedParams } from './sandbox-id.ts'

export type AnsweredRequest = {
  requestID: string
  method: string
  /** The pattern of the route; undefined if no route matched. */
  route: string | undefined
  params: object
  /** Undefined for the operator, and if the request was not authenticated. */
  teamID: string | undefined
  status: number
  durationMs: number
}

export function identifyRequests(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(requestIDHeaders(request.id))
    onBehalfOf(request.id, done)
  })
  // The body comes with the connection, which knows nothing of requests, so the request ID is set again for
  // what follows.
  app.addHook('preValidation', (request, _, done) => onBehalfOf(request.id, done))
}

export function reportAnswers(
  app: FastifyInstance,
  auth: Authenticator,
  onAnswered: (answered: AnsweredRequest) => void,
): void {
  app.addHook('onResponse', async (request, reply) => {
    onAnswered({
      requestID: request.id,
      method: request.method,
      route: request.routeOptions.url,
      params: loggedParams(request.params),
      teamID: auth.callerOf(request)?.team.teamID,
      status: reply.statusCode,
      durationMs: reply.elapsedTime,
    })
  })
}
