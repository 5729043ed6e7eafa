import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { header } from '../../../contract/constants.ts'
import { grantFor } from '../../../core/team/key-grants.ts'
import { type Caller, isAccessTokenShaped } from '../../../core/team/team.ts'
import { AppError, isAppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { recordedFor } from '../../record-changes.ts'
import { accountOf } from './account.ts'
import type { FormSeal } from './form-seal.ts'
import { formPage, messagePage, sendPage } from './page.ts'
import { portsOfServer, returnAddress } from './return-address.ts'

const Form = Type.Object({
  key: Type.Optional(Type.String({ maxLength: 200 })),
  /** The ID of a team of the person who is signed in, in place of a key. */
  team: Type.Optional(Type.String({ maxLength: 100 })),
  next: Type.String({ maxLength: 2000 }),
  seal: Type.Optional(Type.String({ maxLength: 200 })),
})

export function signInRoute(app: Api, context: RouteContext, seals: FormSeal): void {
  app.post('/api/cli', { schema: { hide: true, body: Form } }, async (request, reply) => {
    const { key = '', team: teamID, next, seal = '' } = request.body
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
      const caller = await callerOf(teamID, key.trim(), context, request)
      const token = isAccessTokenShaped(key.trim()) ? key.trim() : await newToken(caller, context, request)
      for (const [name, value] of Object.entries(loginOf(caller, token, request))) {
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
        formPage({
          address: new URL(next),
          seal,
          problem: error.message,
          account: await accountOf(context, request),
        }),
      )
    }
  })
}

/** By the session of the browser if a team is named; else by the key or the access token. */
async function callerOf(
  teamID: string | undefined,
  secret: string,
  { auth, teams, accessTokens }: RouteContext,
  request: FastifyRequest,
): Promise<Caller> {
  if (teamID === undefined)
    return isAccessTokenShaped(secret) ? accessTokens.authenticate(secret) : teams.authenticate(secret)
  // A form cannot send a header.
  request.headers[header.teamID] = teamID
  const caller = await auth.callerOfSession(request)
  if (caller) return caller
  throw new AppError(
    'unauthenticated',
    'Your session has ended: sign in at the dashboard, and load this page again',
  )
}

function newToken(caller: Caller, context: RouteContext, request: FastifyRequest): Promise<string> {
  const { accessTokens, clock } = context
  return recordedFor(context, request, { caller, action: 'token.create' }, async () => {
    const grant = grantFor(caller, {}, clock.now())
    return (await accessTokens.create(caller.team, 'e2b auth login', grant)).token
  })
}

/** The fields that the command line expects. A key of a service has no person, so the team's data fills the user's fields. */
function loginOf(
  { team, person }: Caller,
  token: string,
  { protocol, host }: FastifyRequest,
): Record<string, string> {
  return {
    email: person?.email ?? `${team.slug}@warren`,
    accessToken: token,
    // A token is valid until it is revoked, so it is its own refresh token.
    refreshToken: token,
    tokenEndpoint: `${protocol}://${host}/oauth/token`,
    revokeEndpoint: `${protocol}://${host}/oauth/revoke`,
    clientId: 'warren',
  }
}
