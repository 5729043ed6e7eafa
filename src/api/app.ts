/** The REST control plane: HTTP in, domain calls out. Knows no SQL, no driver and no proxying. */
import swagger from '@fastify/swagger'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyServerFactory,
  type RawReplyDefaultExpression,
  type RawRequestDefaultExpression,
  type RawServerDefault,
} from 'fastify'
import type { LogStore } from '../core/logs.ts'
import type { SandboxService } from '../core/sandbox/service.ts'
import type { SandboxTokens } from '../core/sandbox/tokens.ts'
import type { MetricStore } from '../core/stores.ts'
import type { TeamService } from '../core/team/service.ts'
import type { TemplateCatalog } from '../core/template/catalog.ts'
import type { Log } from '../lib/log.ts'
import { Authenticator } from './auth.ts'
import { maxBodyBytes, parseBodies } from './body-parser.ts'
import { allowAllOrigins } from './cors.ts'
import { handleErrors } from './error-handler.ts'
import { adminRoutes } from './routes/admin/routes.ts'
import { healthRoute } from './routes/health/get-health.ts'
import { sandboxRoutes } from './routes/sandboxes/routes.ts'
import { validateRequests } from './validation.ts'

export type ApiParts = {
  sandboxes: SandboxService
  metrics: MetricStore
  logs: LogStore
  catalog: TemplateCatalog
  teams: TeamService
  tokens: SandboxTokens
  adminToken: string
  /** The domain under which sandboxes are reached, port included where it is not the usual one. */
  domain: string | undefined
  version: string
  log: Log
  serverFactory?: FastifyServerFactory
}

export type Api = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

/** What every route is made with. */
export type RouteContext = ApiParts & { auth: Authenticator }

export async function createApi(parts: ApiParts): Promise<Api> {
  const app = Fastify({
    bodyLimit: maxBodyBytes,
    routerOptions: { maxParamLength: 512 },
    ...(parts.serverFactory && { serverFactory: parts.serverFactory }),
  }).withTypeProvider<TypeBoxTypeProvider>()
  const context: RouteContext = { ...parts, auth: new Authenticator(parts.teams, parts.adminToken) }

  parseBodies(app)
  validateRequests(app)
  handleErrors(app, parts.log)
  allowAllOrigins(app)
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Warren', version: parts.version, description: 'The E2B protocol, self-hosted' },
      components: {
        securitySchemes: {
          ApiKeyAuth: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
          AdminApiKeyAuth: { type: 'apiKey', in: 'header', name: 'X-Admin-Token' },
        },
      },
    },
  })
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger())
  healthRoute(app)
  sandboxRoutes(app, context)
  adminRoutes(app, context)
  return app
}
