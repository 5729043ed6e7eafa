import type { FastifyReply } from 'fastify'
import type { Api, RouteContext } from '../../context.ts'

/** Nothing from other hosts, no script but our own file, and no framing. */
const headers = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
}

/** The documentation of this version, open to everybody. */
export function docsRoutes(app: Api, { answerDocs }: RouteContext): void {
  const answer = async (path: string, reply: FastifyReply) => {
    const { status, type, body } = await answerDocs(path, () => app.swagger())
    return reply.code(status).headers(headers).type(type).send(body)
  }
  const schema = { hide: true }
  app.get('/docs', { schema }, (_, reply) => answer('', reply))
  app.get('/docs/*', { schema }, (request, reply) => answer((request.params as { '*': string })['*'], reply))
}
