import { Type } from 'typebox'
import type { Api } from '../../context.ts'
import { formPage, messagePage, sendPage } from './page.ts'
import { returnAddress } from './return-address.ts'

const Query = Type.Object({
  next: Type.Optional(Type.String()),
  state: Type.Optional(Type.String()),
  error: Type.Optional(Type.String()),
})

/** The page that `e2b auth login` opens, and comes back to with how it ended. */
export function showSignInRoute(app: Api): void {
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
    const address = returnAddress(next)
    if (address) return sendPage(reply, 200, formPage(address.href))
    const text = 'This page is opened by `e2b auth login`, which names the local address to return to.'
    return sendPage(reply, 400, messagePage('Nothing to sign in', text))
  })
}
