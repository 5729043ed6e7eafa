/** Who may use which path of the agent. */
import type { IncomingMessage } from 'node:http'
import { header } from '../contract/constants.ts'
import { AppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { type Identity, sameText } from './identity.ts'

/** For every path but /health and /files, which have their own rules. */
export function requireToken(identity: Identity, request: IncomingMessage): void {
  if (!identity.wantsToken || identity.tokenMatches(tokenOf(request))) return
  throw new AppError(
    'unauthenticated',
    'unauthorized access, please provide a valid access token or method signing if supported',
  )
}

/** For /files: the token or a signed URL. */
export function requireTokenOrSignature(
  identity: Identity,
  clock: Clock,
  request: IncomingMessage,
  query: URLSearchParams,
  operation: 'read' | 'write',
): void {
  if (!identity.wantsToken) return
  const token = tokenOf(request)
  if (token !== undefined) {
    if (identity.tokenMatches(token)) return
    throw new AppError('unauthenticated', 'access token present in header but does not match')
  }
  const signature = query.get('signature')
  if (!signature) throw new AppError('unauthenticated', 'missing signature query parameter')
  const expiration = query.get('signature_expiration') ?? undefined
  const wanted = identity.signatureOf(
    query.get('path') ?? '',
    operation,
    query.get('username') ?? '',
    expiration,
  )
  if (!sameText(signature, wanted)) throw new AppError('unauthenticated', 'invalid signature')
  if (expiration !== undefined && !(Number(expiration) * 1000 > clock.now())) {
    throw new AppError('unauthenticated', 'signature is already expired')
  }
}

export function tokenOf(request: IncomingMessage): string | undefined {
  const value = request.headers[header.accessToken]
  return Array.isArray(value) ? value[0] : value
}
