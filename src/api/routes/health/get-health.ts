import type { Api } from '../../context.ts'

export function healthRoute(app: Api): void {
  app.get(
    '/health',
    { schema: { summary: 'Whether the server is up', tags: ['health'] } },
    async (_, reply) => reply.type('text/plain').send('Health check successful'),
  )
}
