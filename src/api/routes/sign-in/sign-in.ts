import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { grantFor } from '../../../core/team/key-grants.ts'
import { isAccessTokenShaped, type Team } from '../../../core/team/team.ts'
import { isAppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { recordedFor } from '../../record-changes.ts'
import type { FormSeal } from './form-seal.ts'
import { formPage, messagePage, sendPage } from './page.ts'
import { portsOfServer, returnAddress } from './return-address.ts'

const Form = Type.Object({
  key: Type.String({ maxLength: 200 }),
  next: Type.String({ maxLength: 2000 }),
  seal: Type.Optional(Type.String({ maxLength: 200 })),
})

export function signInRoute(app: Api, context: RouteContext, seals: FormSeal): void {
  app.post('/api/cli', { schema: { hide: true, body: Form } }, async (request, reply) => {
    const { key, next, seal = '' } = request.body
    const address = returnAddress(next, portsOfServer(request, context))
    if (!address) {
      const text = 'The address to return to is not that of a command line. Run `e2b auth login` again.'
      return sendPage(reply, 400, messagePage('Not signed in', text))
    }
    const isOwnForm = (request.headers['sec-fetch-site'] ?? 'same-origin') === 'same-origin'
    if (!isOwnForm || !seals.isValid(seal, address, context.clock.now())) {
      const text = 'The page of this form is too old, or from another server. Run `e2b auth login` again.'
      return sendPage(reply, 400, messagePage('Not signed in', text))
    }
    try {
      const { team, token } = await tokenFor(key.trim(), context, request)
      for (const [name, value] of Object.entries(loginOf(team, token, request))) {
        address.searchParams.set(name, value)
      }
      return reply.redirect(address.href, 303)
    } catch (error) {
      const isOver = isAppError(error, 'limit_reached')
      const isDenied = isAppError(error, 'permission_denied')
      if (!isOver && !isDenied && !isAppError(error, 'unauthenticated')) throw error
      return sendPage(
        reply,
        isOver ? 429 : isDenied ? 403 : 401,
        formPage({ address: new URL(next), seal, problem: error.message }),
      )
    }
  })
}

/** Accepts an access token as it is; for an API key, creates a new token of its team. */
async function tokenFor(
  secret: string,
  context: RouteContext,
  request: FastifyRequest,
): Promise<{ team: Team; token: string }> {
  const { teams, accessTokens, clock } = context
  if (isAccessTokenShaped(secret))
    return { team: (await accessTokens.authenticate(secret)).team, token: secret }
  const caller = await teams.authenticate(secret)
  const grant = grantFor(caller, {}, clock.now())
  const { token } = await recordedFor(context, request, { caller, action: 'token.create' }, () =>
    accessTokens.create(caller.team, 'e2b auth login', grant),
  )
  return { team: caller.team, token }
}

/** The fields that the command line expects. Warren has no user accounts, so the team's data fills the user's fields. */
function loginOf(team: Team, token: string, { protocol, host }: FastifyRequest): Record<string, string> {
  return {
    email: `${team.slug}@warren`,
    accessToken: token,
    // A token is valid until it is revoked, so it is its own refresh token.
    refreshToken: token,
    tokenEndpoint: `${protocol}://${host}/oauth/token`,
    revokeEndpoint: `${protocol}://${host}/oauth/revoke`,
    clientId: 'warren',
  }
}
