/** Browsers may call the API from any origin: the key in the header authorizes a request, never a cookie. */
import type { FastifyInstance } from 'fastify'

const allowedHeaders = [
  'Origin,Content-Length,Content-Type,User-Agent,Authorization,X-API-Key,X-Team-ID,Idempotency-Key,X-Request-Id',
  'browser,lang,lang_version,machine,os,package_version,processor,publisher,release,sdk_runtime,system',
].join(',')

const exposedHeaders =
  'X-Next-Token,X-Total-Running,RateLimit-Limit,RateLimit-Remaining,RateLimit-Reset,Retry-After,Should-Retry,X-Request-Id,X-E2B-Trace-ID'

export const openToAllOrigins = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': exposedHeaders,
}

export function allowAllOrigins(app: FastifyInstance): void {
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(openToAllOrigins)
    if (request.method !== 'OPTIONS') return
    reply.header('access-control-allow-headers', allowedHeaders)
    reply.header('access-control-allow-methods', 'GET,POST,PUT,PATCH,DELETE,OPTIONS')
    reply.header('access-control-max-age', '7200')
    return reply.code(204).send()
  })
}
