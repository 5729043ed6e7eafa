import { type AppError, isAppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { noProvider, sendProblem } from './problem-page.ts'

const statuses = { unauthenticated: 401, permission_denied: 403, unavailable: 503 } as const

/** The browser comes back from the provider. */
export function finishSignInRoute(app: Api, { signIn, log, audit, auth }: RouteContext): void {
  app.get('/sign-in/callback', { schema: { hide: true } }, async (request, reply) => {
    if (!signIn) return sendProblem(reply, 404, noProvider, { again: false })
    const { service, sessions, cookies } = signIn
    reply.headers({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
    const query = (request.raw.url ?? '').split('?')[1] ?? ''
    const origin = { userAgent: request.headers['user-agent'], address: auth.addressOf(request) }
    const attempt = cookies.attemptOf(request)
    cookies.clearAttempt(reply)
    try {
      const { token, person, sessionID, returnTo } = await service.finish(query, attempt, origin)
      cookies.setSession(reply, token, sessions.lifetimeMs)
      const { personID } = person
      log.info({ audit: true, personID, sessionID, address: origin.address }, 'a person signed in')
      const who = { personID, person: person.email ?? person.name, credential: 'session' as const }
      audit.note({ ...lineOf(origin.address, request.id), ...who, credentialID: sessionID }, 303)
      return await reply.redirect(returnTo, 303)
    } catch (error) {
      const status = isShown(error) ? statuses[error.code] : undefined
      if (status === undefined) throw error
      const { message, cause } = error as AppError
      audit.note(lineOf(origin.address, request.id), status)
      log.warn({ err: cause, address: origin.address }, `A sign-in failed: ${message}`)
      return sendProblem(reply, status, message)
    }
  })
}

const lineOf = (address: string, requestID: string) => ({
  teamID: null,
  personID: null,
  person: null,
  credential: 'none' as const,
  credentialID: null,
  address,
  action: 'session.create',
  object: null,
  requestID,
})

const isShown = (error: unknown): error is AppError & { code: keyof typeof statuses } =>
  isAppError(error) && error.code in statuses
