/** `/mcp`: sandboxes as tools, for clients of the Model Context Protocol that have an API key. */
import type { onRequestAsyncHookHandler } from 'fastify'
import { header } from '../../../contract/constants.ts'
import { AppError } from '../../../lib/app-error.ts'
import { bearerToken, textHeader } from '../../auth.ts'
import type { Api, RouteContext } from '../../context.ts'

export function mcpRoutes(app: Api, { auth, answerMcp, log }: RouteContext): void {
  app.post(
    '/mcp',
    { onRequest: [takeKeyAsBearer, auth.requireTeam], schema: { hide: true } },
    async (request, reply) => {
      const apiKey = textHeader(request, header.apiKey)
      if (apiKey === undefined) {
        throw new AppError('unauthenticated', 'Tools need an API key: send it as a bearer token')
      }
      reply.hijack()
      for (const [name, value] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value!)
      const { teamID } = auth.teamOf(request)
      await answerMcp({ apiKey, teamID }, request.raw, reply.raw, request.body).catch((error) => {
        log.error({ error }, 'A request of the Model Context Protocol could not be answered.')
        reply.raw.destroy()
      })
    },
  )
  // There are no sessions to listen to or to end.
  app.route({
    method: ['GET', 'DELETE'],
    url: '/mcp',
    schema: { hide: true },
    handler: (_, reply) => reply.code(405).header('allow', 'POST').send(),
  })
}

/** Clients of MCP send their key as a bearer token. */
const takeKeyAsBearer: onRequestAsyncHookHandler = async (request) => {
  const token = bearerToken(request)
  if (token?.startsWith('e2b_') && request.headers[header.apiKey] === undefined) {
    request.headers[header.apiKey] = token
  }
}
