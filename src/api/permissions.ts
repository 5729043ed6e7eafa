/**
 * Who may make which request: one line for each route of the API. `requireTeam` and `requireAdmin` enforce it; a route
 * without a line, or with one that its authentication does not fit, stops the start.
 */
import type { FastifyInstance } from 'fastify'
import type { Role } from '../core/person/person.ts'
import type { Authenticator } from './auth.ts'

/**
 * A role: of the caller in the team, or a stronger one. `operator`: the admin token, or a person who is an operator. `anybody`:
 * shows nothing of a team. `token`: the route itself checks a token or a signed link. `person`: a session of a person, whatever
 * team it is about.
 */
type Permission = Role | 'operator' | 'anybody' | 'token' | 'person'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** From the table below. */
    permission?: Permission
  }
}

/** A viewer sees what the team has, and nothing by which a sandbox or a volume can be entered. */
export const permissions: Record<string, Permission> = {
  'GET /sandboxes': 'viewer',
  'GET /v2/sandboxes': 'viewer',
  'GET /sandboxes/metrics': 'viewer',
  'GET /sandboxes/:sandboxID': 'viewer',
  'GET /sandboxes/:sandboxID/logs': 'viewer',
  'GET /v2/sandboxes/:sandboxID/logs': 'viewer',
  'GET /sandboxes/:sandboxID/metrics': 'viewer',
  'POST /sandboxes': 'member',
  'POST /v2/sandboxes': 'member',
  'POST /sandboxes/:sandboxID/connect': 'member',
  'POST /v2/sandboxes/:sandboxID/connect': 'member',
  'POST /sandboxes/:sandboxID/fork': 'member',
  'PUT /sandboxes/:sandboxID/network': 'member',
  'POST /sandboxes/:sandboxID/pause': 'member',
  'POST /sandboxes/:sandboxID/refreshes': 'member',
  'POST /sandboxes/:sandboxID/resume': 'member',
  'POST /sandboxes/:sandboxID/snapshots': 'member',
  'POST /sandboxes/:sandboxID/timeout': 'member',
  'DELETE /sandboxes/:sandboxID': 'member',
  'GET /snapshots': 'viewer',

  'GET /templates': 'viewer',
  'GET /v2/templates': 'viewer',
  'GET /templates/:templateID': 'viewer',
  'GET /templates/:templateID/tags': 'viewer',
  'GET /templates/:templateID/tags/count': 'viewer',
  'GET /templates/:templateID/tags/exists': 'viewer',
  'GET /templates/:templateID/tags/groups': 'viewer',
  'GET /templates/:templateID/tags/:tag/assignments': 'viewer',
  'GET /templates/aliases/:alias': 'viewer',
  'GET /templates/:templateID/builds/:buildID/logs': 'viewer',
  'GET /templates/:templateID/builds/:buildID/status': 'viewer',
  'GET /default-templates': 'viewer',
  'GET /built-in-templates': 'viewer',
  'GET /built-in-templates/:name': 'viewer',
  'POST /built-in-templates/:name': 'member',
  'GET /templates/:templateID/files/:hash': 'member',
  'PUT /build-files/:teamID/:hash': 'token',
  'POST /templates': 'member',
  'POST /v2/templates': 'member',
  'POST /v3/templates': 'member',
  'POST /templates/on-demand': 'member',
  'POST /templates/:templateID': 'member',
  'PATCH /templates/:templateID': 'member',
  'PATCH /v2/templates/:templateID': 'member',
  'DELETE /templates/:templateID': 'member',
  'POST /templates/:templateID/builds/:buildID': 'member',
  'POST /v2/templates/:templateID/builds/:buildID': 'member',
  'POST /templates/tags': 'member',
  'DELETE /templates/tags': 'member',

  // Without their values, which no answer shows.
  'GET /secrets': 'viewer',
  'GET /secrets/:secretID': 'viewer',
  'POST /secrets': 'member',
  'POST /secrets/:secretID': 'member',
  'DELETE /secrets/:secretID': 'member',

  'GET /volumes': 'viewer',
  // Its answer has a token for the volume's content.
  'GET /volumes/:volumeID': 'member',
  'POST /volumes': 'member',
  'DELETE /volumes/:volumeID': 'member',
  'GET /volumecontent/:volumeID/dir': 'token',
  'POST /volumecontent/:volumeID/dir': 'token',
  'GET /volumecontent/:volumeID/file': 'token',
  'PUT /volumecontent/:volumeID/file': 'token',
  'GET /volumecontent/:volumeID/path': 'token',
  'PATCH /volumecontent/:volumeID/path': 'token',
  'DELETE /volumecontent/:volumeID/path': 'token',

  'GET /events/sandboxes': 'viewer',
  'GET /events/sandboxes/:sandboxID': 'viewer',
  'GET /events/webhooks': 'member',
  'GET /events/webhooks/:webhookID': 'member',
  'GET /events/webhooks/:webhookID/deliveries': 'member',
  'POST /events/webhooks': 'owner',
  'PATCH /events/webhooks/:webhookID': 'owner',
  'DELETE /events/webhooks/:webhookID': 'owner',

  'GET /teams': 'viewer',
  'GET /teams/:teamID/metrics': 'viewer',
  'GET /teams/:teamID/metrics/max': 'viewer',
  'GET /teams/:teamID/usage': 'viewer',
  'GET /teams/:teamID/audit': 'owner',
  'GET /teams/:teamID/members': 'viewer',
  'POST /teams/:teamID/members': 'owner',
  'PATCH /teams/:teamID/members/:personID': 'owner',
  // Oneself; an owner: anybody. The route tells them apart.
  'DELETE /teams/:teamID/members/:personID': 'viewer',
  // Keys of oneself; an owner: all. The routes tell them apart.
  'GET /api-keys': 'viewer',
  'POST /api-keys': 'viewer',
  'PATCH /api-keys/:keyID': 'viewer',
  'DELETE /api-keys/:keyID': 'viewer',
  'POST /access-tokens': 'viewer',
  'DELETE /access-tokens/:tokenID': 'viewer',
  'POST /mcp': 'member',

  'GET /me': 'person',
  'POST /sign-out': 'person',
  // Of oneself; an owner of the team: of its members; an operator: of all. The routes tell them apart.
  'GET /sessions': 'person',
  'DELETE /sessions': 'person',
  'DELETE /sessions/:sessionID': 'person',

  'GET /admin/usage': 'operator',
  'PATCH /admin/teams/:teamID/budget': 'operator',
  'GET /admin/built-in-templates/:name': 'operator',
  'POST /admin/built-in-templates/:name': 'operator',
  'GET /admin/audit': 'operator',
  'GET /admin/doctor': 'operator',
  'GET /admin/machine': 'operator',
  'GET /admin/shares': 'operator',
  'POST /admin/prune': 'operator',
  'GET /admin/lost-volumes': 'operator',
  'POST /admin/lost-volumes/:lostVolumeID/recover': 'operator',
  'GET /admin/quarantine': 'operator',
  'DELETE /admin/quarantine/:snapshotName': 'operator',
  'POST /admin/quarantine/:snapshotName/recover': 'operator',
  'GET /admin/sandboxes/running-counts': 'operator',
  'GET /admin/teams': 'operator',
  'POST /admin/teams': 'operator',
  'PATCH /admin/teams/:teamID': 'operator',
  'DELETE /admin/teams/:teamID': 'operator',
  'PATCH /admin/teams/:teamID/limits': 'operator',
  'GET /admin/teams/:teamID/api-keys': 'operator',
  'POST /admin/teams/:teamID/api-keys': 'operator',
  'DELETE /admin/teams/:teamID/api-keys/:keyID': 'operator',
  'POST /admin/teams/:teamID/dashboard-links': 'operator',
  'POST /admin/teams/:teamID/builds/cancel': 'operator',
  'POST /admin/teams/:teamID/sandboxes/kill': 'operator',
  'GET /nodes': 'operator',
  'GET /nodes/:nodeID': 'operator',
  'POST /nodes/:nodeID': 'operator',
  'DELETE /admin/nodes/:nodeID': 'operator',
  'GET /metrics': 'operator',

  'GET /': 'anybody',
  'GET /health': 'anybody',
  'GET /health/database': 'anybody',
  'GET /health/ready': 'anybody',
  'GET /openapi.json': 'anybody',
  'GET /docs': 'anybody',
  'GET /docs/*': 'anybody',
  'GET /dashboard': 'anybody',
  'GET /dashboard/*': 'anybody',
  'GET /dashboard/assets/:name': 'anybody',
  'GET /mcp': 'anybody',
  'DELETE /mcp': 'anybody',
  'GET /api/cli': 'anybody',
  'GET /sign-in': 'anybody',
  'GET /sign-in/callback': 'token',
  'POST /api/cli': 'token',
  'POST /dashboard-links/redeem': 'token',
  'POST /oauth/token': 'token',
  'POST /oauth/revoke': 'token',
}

/** Call it before routes are added. */
export function requirePermissions(
  app: FastifyInstance,
  auth: Pick<Authenticator, 'requireTeam' | 'requireAdmin' | 'requireAdminOrBearer' | 'requireSession'>,
  table = permissions,
): void {
  const guardsOf = (permission: Permission): unknown[] => {
    if (permission === 'operator') return [auth.requireAdmin, auth.requireAdminOrBearer]
    if (permission === 'person') return [auth.requireSession]
    return permission === 'anybody' || permission === 'token' ? [] : [auth.requireTeam]
  }
  const allGuards = ['operator', 'person', 'viewer'].flatMap((permission) =>
    guardsOf(permission as Permission),
  )
  app.addHook('onRoute', (route) => {
    for (const method of [route.method].flat()) {
      const name = `${method === 'HEAD' ? 'GET' : method} ${route.url}`
      const permission = table[name]
      if (permission === undefined) throw new Error(`src/api/permissions.ts does not say who may ${name}`)
      const present = [route.onRequest ?? []].flat().filter((hook) => allGuards.includes(hook))
      const wanted = guardsOf(permission)
      const fits = wanted.length === 0 ? present.length === 0 : present.some((hook) => wanted.includes(hook))
      if (!fits) throw new Error(`${name} is for '${permission}', and its route asks for other credentials`)
      route.config = { ...route.config, permission }
    }
  })
}
