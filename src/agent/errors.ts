/** The only place that turns a failure inside the agent into an HTTP status or a Connect code. */
import type { ServerResponse } from 'node:http'
import { AppError, type ErrorCode, errorText } from '../lib/app-error.ts'
import type { ConnectCode } from './rpc/connect-code.ts'
import { RpcError } from './rpc/rpc-error.ts'

const answers: Record<ErrorCode, { status: number; code: ConnectCode }> = {
  invalid_argument: { status: 400, code: 'invalid_argument' },
  unauthenticated: { status: 401, code: 'unauthenticated' },
  permission_denied: { status: 403, code: 'permission_denied' },
  not_found: { status: 404, code: 'not_found' },
  already_exists: { status: 409, code: 'already_exists' },
  conflict: { status: 409, code: 'failed_precondition' },
  payload_too_large: { status: 413, code: 'resource_exhausted' },
  misdirected: { status: 421, code: 'failed_precondition' },
  unprocessable: { status: 422, code: 'invalid_argument' },
  limit_reached: { status: 429, code: 'resource_exhausted' },
  no_space: { status: 507, code: 'resource_exhausted' },
  unavailable: { status: 503, code: 'unavailable' },
  deadline_exceeded: { status: 504, code: 'deadline_exceeded' },
  internal: { status: 500, code: 'internal' },
}

/** A failure in the form of Connect. */
export function wireError(error: unknown): { code: ConnectCode; message: string } {
  if (error instanceof RpcError) return { code: error.code, message: error.message }
  const known = fromSystemError(error)
  return { code: answers[known.code].code, message: known.message }
}

/** Answers with `{code, message}`; a response already under way can only be cut. */
export function sendError(response: ServerResponse, error: unknown): void {
  const known = fromSystemError(error)
  if (response.headersSent) {
    response.destroy()
    return
  }
  sendJSON(response, statusOf(known), { code: statusOf(known), message: known.message })
}

export function statusOf(error: AppError): number {
  return answers[error.code].status
}

export function sendJSON(response: ServerResponse, status: number, body: unknown): void {
  const bytes = Buffer.from(JSON.stringify(body))
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length })
  response.end(bytes)
}

const systemErrors: Record<string, { code: ErrorCode; text: string }> = {
  ENOENT: { code: 'not_found', text: 'no such file or directory' },
  EEXIST: { code: 'already_exists', text: 'already exists' },
  ENOTEMPTY: { code: 'invalid_argument', text: 'the directory is not empty' },
  ENOTDIR: { code: 'invalid_argument', text: 'a part of the path is not a directory' },
  EISDIR: { code: 'invalid_argument', text: 'is a directory' },
  EINVAL: { code: 'invalid_argument', text: 'not possible with this path' },
  ENAMETOOLONG: { code: 'invalid_argument', text: 'the name is too long' },
  ELOOP: { code: 'conflict', text: 'symbolic links lead in a circle' },
  ERR_INVALID_ARG_VALUE: {
    code: 'invalid_argument',
    text: 'holds a zero byte or another value that cannot be used',
  },
  EACCES: { code: 'permission_denied', text: 'permission denied' },
  EPERM: { code: 'permission_denied', text: 'operation not permitted' },
  EROFS: { code: 'permission_denied', text: 'the file system is read-only' },
  EBUSY: { code: 'permission_denied', text: 'in use by the system' },
  ENOSPC: { code: 'no_space', text: 'not enough disk space available' },
  EDQUOT: { code: 'no_space', text: 'not enough disk space available' },
  EMFILE: { code: 'limit_reached', text: 'too many open files' },
  ENFILE: { code: 'limit_reached', text: 'too many open files' },
}

export function systemErrorCode(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  return typeof code === 'string' ? code : undefined
}

/** The message of a failed system call, with the wire's wording if it is known. */
export function systemErrorText(error: unknown): string {
  return systemErrors[systemErrorCode(error) ?? '']?.text ?? errorText(error)
}

/** Gives a failed system call the wire's wording; an AppError stays unchanged. */
export function fromSystemError(error: unknown, path?: string): AppError {
  if (error instanceof AppError) return error
  const known = systemErrors[systemErrorCode(error) ?? '']
  if (!known) {
    return new AppError('internal', path === undefined ? 'internal error' : `'${path}' could not be used`, {
      cause: error,
    })
  }
  const shown = path ?? (error as NodeJS.ErrnoException).path
  const message = known.code === 'no_space' || shown === undefined ? known.text : `${known.text}: ${shown}`
  return new AppError(known.code, message, { cause: error })
}
