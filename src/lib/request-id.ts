/**
 * The id of a request to this server. It is on the answer, in every line of the log that is written on the request's
 * behalf, and in the message of a failure, so that a client and the operator can speak about the same request.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { IncomingMessage } from 'node:http'
import { newRequestID } from './ids.ts'

export const requestIDHeader = 'x-request-id'

/** The id on an answer. E2B's clients print the second header with failures when they log diagnostics. */
export const requestIDHeaders = (requestID: string): Record<string, string> => ({
  [requestIDHeader]: requestID,
  'x-e2b-trace-id': requestID,
})

/** Uses the client's own id if it contains only characters that are safe in a log. */
const sane = /^[\w.-]{1,64}$/

const ofRequest = Symbol('requestID')
type Identified = Pick<IncomingMessage, 'headers'> & { [ofRequest]?: string }

export function requestIDOf(request: Identified): string {
  const known = request[ofRequest]
  if (known !== undefined) return known
  const given = request.headers[requestIDHeader]
  const requestID = typeof given === 'string' && sane.test(given) ? given : newRequestID()
  request[ofRequest] = requestID
  return requestID
}

const current = new AsyncLocalStorage<string>()

/** Runs `work` on behalf of the request, including all that it does after it has returned. */
export function onBehalfOf<T>(requestID: string, work: () => T): T {
  return current.run(requestID, work)
}

/** Undefined if no request has caused this work. */
export const currentRequestID = (): string | undefined => current.getStore()
