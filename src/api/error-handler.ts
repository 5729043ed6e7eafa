/** The only place that turns a failure into an HTTP answer. */
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { header } from '../contract/constants.ts'
import type { ErrorBody } from '../contract/rest/shared.ts'
import { AppError, type ErrorCode, isAppError } from '../lib/app-error.ts'
import type { Log } from '../lib/log.ts'
import { requestIDHeaders } from '../lib/request-id.ts'
import { openToAllOrigins } from './cors.ts'

const statusOf: Record<ErrorCode, number> = {
  invalid_argument: 400,
  unauthenticated: 401,
  permission_denied: 403,
  not_found: 404,
  already_exists: 409,
  conflict: 409,
  payload_too_large: 413,
  misdirected: 421,
  unprocessable: 422,
  limit_reached: 429,
  internal: 500,
  unavailable: 503,
  deadline_exceeded: 504,
  no_space: 507,
}

/** Returns the error to report instead of this one. */
type ExplainFailure = (error: AppError, request: FastifyRequest) => Promise<AppError>

export function handleErrors(
  app: FastifyInstance,
  log: Log,
  explain: ExplainFailure = async (error) => error,
): void {
  app.setErrorHandler(async (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => {
    const known = await explain(toAppError(error), request)
    if (statusOf[known.code] < 500) return sendError(reply, known)
    log.error(
      { err: error, requestID: request.id, method: request.method, url: request.routeOptions.url },
      'request failed',
    )
    return sendError(reply, known, request.id)
  })
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?')[0] ?? ''
    return sendError(reply, new AppError('not_found', whyNotFound(request.method, path)))
  })
}

function whyNotFound(method: string, path: string): string {
  if (/^\/(instances|envs)(\/|$)/.test(path)) {
    return `The endpoints under ${path.split('/', 2).join('/')} are deprecated and were removed; use a current client`
  }
  return `no matching operation was found: ${method} ${path}; /openapi.json lists all operations`
}

/** Answers a path that cannot be decoded: it reaches no route, and so no hook. */
export function answerUnrouted(error: FastifyError, { id }: FastifyRequest, reply: FastifyReply): void {
  const why =
    error.code === 'FST_ERR_MAX_PARAM_LENGTH'
      ? 'a part of the path is too long'
      : 'the path is not percent-encoded correctly'
  const headers = { ...openToAllOrigins, ...requestIDHeaders(id) }
  sendError(reply.headers(headers), new AppError('invalid_argument', `Invalid request: ${why}`))
}

/** The body of a failure that is one part of a successful answer. */
export function errorBody(error: unknown): ErrorBody {
  const known = toAppError(error as FastifyError)
  return { code: statusOf[known.code], message: known.message }
}

/** With a `requestID`, the client can tell the operator which log line has the cause. */
function sendError(reply: FastifyReply, error: AppError, requestID?: string): FastifyReply {
  const status = statusOf[error.code]
  const isReported = requestID !== undefined && error.cause !== undefined
  const message = isReported ? `${error.message} (request ${requestID})` : error.message
  const body: ErrorBody = { code: status, message }
  if (error.slug) body.error_code = error.slug
  if (error.retry) reply.header(header.shouldRetry, String(error.retry.should))
  if (error.retry?.afterSeconds !== undefined) {
    reply.header(header.retryAfter, String(error.retry.afterSeconds))
  }
  return reply.code(status).type('application/json; charset=utf-8').send(body)
}

function toAppError(error: FastifyError): AppError {
  if (isAppError(error)) return error
  if (error.validation) return new AppError('invalid_argument', `validation error: ${error.message}`)
  if (error.statusCode === 413) {
    return new AppError('payload_too_large', 'Request body is too large: the maximum is 1 MiB')
  }
  if (error.code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
    return new AppError('invalid_argument', 'Invalid request: send Content-Type: application/json')
  }
  if (error.statusCode !== undefined && error.statusCode < 500) {
    return new AppError('invalid_argument', `Invalid request: ${error.message}`)
  }
  return new AppError('internal', 'Warren failed at this request; its log has the reason', { cause: error })
}
