import { gunzipSync } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { type DashboardFile, dashboardPage, dashboardPolicy } from './dashboard.ts'

const types: Record<string, string> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

const AssetPath = Type.Object({ name: Type.String() })

/** The dashboard's files need no credential: what they show is asked for with the reader's own key. */
export function dashboardRoutes(
  app: Api,
  { openDashboard, domain, weakerIsolation, signIn }: RouteContext,
): void {
  const schema = { hide: true }
  app.get(
    '/dashboard/assets/:name',
    { schema: { hide: true, params: AssetPath } },
    async (request, reply) => {
      const { name } = request.params
      const file = (await openDashboard()).files.get(name)
      if (!file) throw new AppError('not_found', 'The dashboard has changed: load its page again')
      reply.header('cache-control', 'public, max-age=31536000, immutable')
      return sendFile(request, reply.type(types[name.split('.').at(-1)!] ?? 'application/octet-stream'), file)
    },
  )
  const sendPage = async (_request: FastifyRequest, reply: FastifyReply) => {
    const { entry } = await openDashboard()
    return reply
      .type('text/html; charset=utf-8')
      .headers({ ...pageHeaders, 'content-security-policy': dashboardPolicy(domain) })
      .send(dashboardPage(entry, { domain, weakerIsolation, signInLabel: signIn?.label }))
  }
  app.get('/dashboard', { schema }, sendPage)
  // Each view has an address of its own, which the page reads.
  app.get('/dashboard/*', { schema }, sendPage)
  app.get('/', { schema }, async (_request, reply) => reply.redirect('/dashboard'))
}

const pageHeaders = {
  'cache-control': 'no-cache',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

function sendFile(request: FastifyRequest, reply: FastifyReply, { gzip, br }: DashboardFile): FastifyReply {
  reply.headers({ vary: 'accept-encoding', 'x-content-type-options': 'nosniff' })
  const encodings = String(request.headers['accept-encoding'] ?? '')
  if (/\bbr\b/.test(encodings)) return reply.header('content-encoding', 'br').send(br)
  if (/\bgzip\b/.test(encodings)) return reply.header('content-encoding', 'gzip').send(gzip)
  return reply.send(gunzipSync(gzip))
}
