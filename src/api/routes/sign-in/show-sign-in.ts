import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { Api, RouteContext } from '../../context.ts'
import { accountOf } from './account.ts'
import type { FormSeal } from './form-seal.ts'
import { formPage, messagePage, sendPage } from './page.ts'
import { portsOfServer, returnAddress } from './return-address.ts'

const Query = Type.Object({
  next: Type.Optional(Type.String()),
  state: Type.Optional(Type.String()),
  error: Type.Optional(Type.String()),
})

/** The page that `e2b auth login` opens, and to which it returns with the outcome. */
export function showSignInRoute(app: Api, context: RouteContext, seal: FormSeal): void {
  app.get('/api/cli', { schema: { hide: true, querystring: Query } }, async (request, reply) => {
    const { next, state, error } = request.query
    if (state === 'success') {
      return sendPage(
        reply,
        200,
        messagePage('Signed in', 'The command line has its token. Close this page.'),
      )
    }
    if (state === 'error') {
      return sendPage(
        reply,
        200,
        messagePage('Not signed in', `The command line says: ${error ?? 'nothing'}.`),
      )
    }
    const address = returnAddress(next, portsOfServer(request, context))
    if (!address) {
      const text = 'This page is opened by `e2b auth login`, which names the local address to return to.'
      return sendPage(reply, 400, messagePage('Nothing to sign in', text))
    }
    if (isFromPage(request)) {
      const text =
        'A link of another page opened this page. If you ran `e2b auth login` yourself, copy the address that it printed into ' +
        "the browser's address bar. If you did not, close this page: somebody wants a token of your team."
      return sendPage(reply, 403, messagePage('Not signed in', text))
    }
    const account = await accountOf(context, request)
    return sendPage(reply, 200, formPage({ address, seal: seal.make(address, context.clock.now()), account }))
  })
}

/**
 * True if a page opened this one, rather than a person or a program. Browsers report that on TLS and on
 * localhost; only there could a page of a sandbox listen on an address that we accept.
 */
function isFromPage(request: FastifyRequest): boolean {
  return (request.headers['sec-fetch-site'] ?? 'none') !== 'none'
}
