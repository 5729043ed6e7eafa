import { Type } from 'typebox'
import { attemptLifetimeMs } from '../../../core/sign-in/sign-in.ts'
import { isAppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { noProvider, sendProblem } from './problem-page.ts'

const Query = Type.Object({
  return: Type.Optional(Type.String({ maxLength: 2000 })),
  /** The browser was sent here from another name of this server. */
  home: Type.Optional(Type.String()),
})

/** Sends the browser to the provider. */
export function beginSignInRoute(app: Api, { signIn, log }: RouteContext): void {
  app.get('/sign-in', { schema: { hide: true, querystring: Query } }, async (request, reply) => {
    reply.headers({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
    if (!signIn) return sendProblem(reply, 404, noProvider, { again: false })
    const { return: returnTo = '/dashboard', home } = request.query
    const { origin } = signIn.cookies
    // The provider returns to one name of this server; cookies of another name would not be there.
    if (home === undefined && request.host !== new URL(origin).host) {
      return reply.redirect(`${origin}/sign-in?${new URLSearchParams({ return: returnTo, home: '1' })}`, 302)
    }
    try {
      const { url, cookie } = await signIn.service.begin(returnTo)
      signIn.cookies.setAttempt(reply, cookie, attemptLifetimeMs)
      return await reply.redirect(url, 302)
    } catch (error) {
      if (!isAppError(error, 'unavailable')) throw error
      log.warn({ err: error.cause }, error.message)
      return sendProblem(reply, 503, error.message)
    }
  })
}
