/** The REST control plane: HTTP in, domain calls out. Knows no SQL, no driver and no proxying. */
import swagger from '@fastify/swagger'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify from 'fastify'
import { TrustedProxies } from '../lib/client-origin.ts'
import { requestIDOf } from '../lib/request-id.ts'
import { auditChanges } from './audit.ts'
import { Authenticator } from './auth.ts'
import { maxBodyBytes, parseBodies } from './body-parser.ts'
import type { Api, ApiParts, RouteContext } from './context.ts'
import { allowAllOrigins } from './cors.ts'
import { answerUnrouted, handleErrors } from './error-handler.ts'
import { isPartOfEveryNode } from './every-node.ts'
import { explainMissing } from './lone-node.ts'
import { passOnToOwners } from './pass-on.ts'
import { requirePermissions } from './permissions.ts'
import { RateLimit } from './rate-limit.ts'
import { recordChanges } from './record-changes.ts'
import { identifyRequests, reportAnswers } from './request-id.ts'
import { adminRoutes } from './routes/admin/routes.ts'
import { auditRoutes } from './routes/audit/routes.ts'
import { dashboardRoutes } from './routes/dashboard/routes.ts'
import { docsRoutes } from './routes/docs/routes.ts'
import { eventRoutes } from './routes/events/routes.ts'
import { databaseHealthRoute } from './routes/health/get-database.ts'
import { healthRoute } from './routes/health/get-health.ts'
import { readyRoute } from './routes/health/get-ready.ts'
import { mcpRoutes } from './routes/mcp/routes.ts'
import { memberRoutes } from './routes/members/routes.ts'
import { nodeRoutes } from './routes/nodes/routes.ts'
import { sandboxRoutes } from './routes/sandboxes/routes.ts'
import { secretRoutes } from './routes/secrets/routes.ts'
import { sessionRoutes } from './routes/sessions/routes.ts'
import { signInRoutes } from './routes/sign-in/routes.ts'
import { listSnapshotsRoute } from './routes/snapshots/list-snapshots.ts'
import { teamRoutes } from './routes/teams/routes.ts'
import { templateRoutes } from './routes/templates/routes.ts'
import { usageRoutes } from './routes/usage/routes.ts'
import { volumeContentRoutes } from './routes/volume-content/routes.ts'
import { volumeRoutes } from './routes/volumes/routes.ts'
import { serializeAnswers } from './serialization.ts'
import { SessionCallers } from './session-callers.ts'
import { validateRequests } from './validation.ts'

export async function createApi(parts: ApiParts): Promise<Api> {
  const app = Fastify({
    bodyLimit: maxBodyBytes,
    routerOptions: { maxParamLength: 512 },
    frameworkErrors: answerUnrouted,
    genReqId: requestIDOf,
  }).withTypeProvider<TypeBoxTypeProvider>()
  const context: RouteContext = { ...parts, auth: authenticatorOf(parts) }

  requirePermissions(app, context.auth)
  identifyRequests(app)
  parseBodies(app)
  validateRequests(app)
  serializeAnswers(app)
  handleErrors(app, parts.log, (error, request) => explainMissing(context, error, request))
  allowAllOrigins(app)
  auditChanges(app, context.auth, parts.log)
  recordChanges(app, { ...context, isPart: (request) => isPartOfEveryNode(context, request) })
  reportAnswers(app, context.auth, parts.onAnswered)
  if (parts.cluster) passOnToOwners(app, parts.cluster.forwarder, context)
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Warren', version: parts.version, description: 'The E2B protocol, self-hosted' },
      components: {
        securitySchemes: {
          ApiKeyAuth: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
          AccessTokenAuth: { type: 'http', scheme: 'bearer' },
          VolumeTokenAuth: { type: 'http', scheme: 'bearer' },
          SessionCookie: { type: 'apiKey', in: 'cookie', name: 'warren-session' },
          AdminApiKeyAuth: { type: 'apiKey', in: 'header', name: 'X-Admin-Token' },
        },
      },
    },
  })
  let document: Buffer | undefined
  app.get('/openapi.json', { schema: { hide: true } }, async (_, reply) => {
    // Anybody may ask, so all answers share one piece of memory.
    document ??= Buffer.from(JSON.stringify(app.swagger()))
    return reply.type('application/json; charset=utf-8').send(document)
  })
  healthRoute(app)
  readyRoute(app, context)
  databaseHealthRoute(app, context)
  sandboxRoutes(app, context)
  listSnapshotsRoute(app, context)
  templateRoutes(app, context)
  secretRoutes(app, context)
  volumeRoutes(app, context)
  volumeContentRoutes(app, context)
  eventRoutes(app, context)
  teamRoutes(app, context)
  memberRoutes(app, context)
  usageRoutes(app, context)
  auditRoutes(app, context)
  await signInRoutes(app, context)
  sessionRoutes(app, context)
  adminRoutes(app, context)
  nodeRoutes(app, context)
  mcpRoutes(app, context)
  docsRoutes(app, context)
  dashboardRoutes(app, context)
  return app
}

function authenticatorOf(parts: ApiParts): Authenticator {
  const rateLimit = new RateLimit({ limit: parts.requestsPerMinute, clock: parts.clock })
  const sessionCallers = parts.signIn && new SessionCallers({ ...parts, ...parts.signIn })
  const proxies = new TrustedProxies(parts.trustedProxies)
  return new Authenticator({ ...parts, rateLimit, proxies, sessionCallers })
}
