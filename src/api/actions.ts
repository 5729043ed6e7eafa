/** What each request to change something is called in the audit. What people and programs do inside a sandbox or a volume is not in it. */
import type { FastifyRequest } from 'fastify'

/** A route that changes something and is missing here fails `audit.test.ts`. */
export const actions: Record<string, string> = {
  'POST /sandboxes': 'sandbox.create',
  'POST /v2/sandboxes': 'sandbox.create',
  'POST /sandboxes/:sandboxID/connect': 'sandbox.connect',
  'POST /v2/sandboxes/:sandboxID/connect': 'sandbox.connect',
  'POST /sandboxes/:sandboxID/fork': 'sandbox.fork',
  'PUT /sandboxes/:sandboxID/network': 'sandbox.network',
  'POST /sandboxes/:sandboxID/pause': 'sandbox.pause',
  'POST /sandboxes/:sandboxID/refreshes': 'sandbox.timeout',
  'POST /sandboxes/:sandboxID/resume': 'sandbox.resume',
  'POST /sandboxes/:sandboxID/snapshots': 'sandbox.snapshot',
  'POST /sandboxes/:sandboxID/timeout': 'sandbox.timeout',
  'DELETE /sandboxes/:sandboxID': 'sandbox.kill',
  'POST /templates': 'template.create',
  'POST /v2/templates': 'template.create',
  'POST /v3/templates': 'template.create',
  'POST /templates/:templateID': 'template.rebuild',
  'PATCH /templates/:templateID': 'template.update',
  'PATCH /v2/templates/:templateID': 'template.update',
  'DELETE /templates/:templateID': 'template.delete',
  'POST /templates/:templateID/builds/:buildID': 'template.build',
  'POST /v2/templates/:templateID/builds/:buildID': 'template.build',
  'POST /built-in-templates/:name': 'template.build',
  'POST /templates/on-demand': 'template.build',
  'POST /templates/tags': 'template.tag',
  'DELETE /templates/tags': 'template.untag',
  'POST /secrets': 'secret.create',
  'POST /secrets/:secretID': 'secret.update',
  'DELETE /secrets/:secretID': 'secret.delete',
  'POST /volumes': 'volume.create',
  'DELETE /volumes/:volumeID': 'volume.delete',
  'POST /events/webhooks': 'webhook.create',
  'PATCH /events/webhooks/:webhookID': 'webhook.update',
  'DELETE /events/webhooks/:webhookID': 'webhook.delete',
  'POST /teams/:teamID/members': 'member.add',
  'PATCH /teams/:teamID/members/:personID': 'member.role',
  'DELETE /teams/:teamID/members/:personID': 'member.remove',
  'POST /sign-out': 'session.end',
  'DELETE /sessions': 'session.end-all',
  'DELETE /sessions/:sessionID': 'session.end',
  'POST /api-keys': 'key.create',
  'PATCH /api-keys/:keyID': 'key.rename',
  'DELETE /api-keys/:keyID': 'key.revoke',
  'POST /access-tokens': 'token.create',
  'DELETE /access-tokens/:tokenID': 'token.revoke',
  'POST /admin/built-in-templates/:name': 'template.build',
  'POST /admin/prune': 'machine.prune',
  'POST /admin/lost-volumes/:lostVolumeID/recover': 'volume.recover',
  'DELETE /admin/quarantine/:snapshotName': 'quarantine.delete',
  'POST /admin/quarantine/:snapshotName/recover': 'quarantine.recover',
  'POST /admin/teams': 'team.create',
  'PATCH /admin/teams/:teamID': 'team.update',
  'DELETE /admin/teams/:teamID': 'team.delete',
  'PATCH /admin/teams/:teamID/budget': 'team.budget',
  'PATCH /admin/teams/:teamID/limits': 'team.limits',
  'POST /admin/teams/:teamID/api-keys': 'key.create',
  'DELETE /admin/teams/:teamID/api-keys/:keyID': 'key.revoke',
  'POST /admin/teams/:teamID/dashboard-links': 'link.create',
  'POST /admin/teams/:teamID/builds/cancel': 'team.cancel-builds',
  'POST /admin/teams/:teamID/sandboxes/kill': 'team.kill-sandboxes',
  'POST /nodes/:nodeID': 'node.status',
  'DELETE /admin/nodes/:nodeID': 'node.forget',
}

/** Requests whose own calls are in the audit, and content, for which a token was given. */
export const withoutAction = new Set([
  'POST /mcp',
  'DELETE /mcp',
  'PUT /build-files/:teamID/:hash',
  'POST /volumecontent/:volumeID/dir',
  'PUT /volumecontent/:volumeID/file',
  'PATCH /volumecontent/:volumeID/path',
  'DELETE /volumecontent/:volumeID/path',
  // Named where they sign somebody in or out, because only there the caller is known.
  'POST /api/cli',
  'POST /dashboard-links/redeem',
  'POST /oauth/token',
  'POST /oauth/revoke',
])

export const actionOf = ({ method, routeOptions }: FastifyRequest): string | undefined =>
  actions[`${method} ${routeOptions.url}`]

/** The ID or the name of what the request is about. The ID of an older client's sandbox may contain a token. */
export function objectIn(params: unknown): string | null {
  const { buildID: _build, hash: _hash, ...named } = (params ?? {}) as Record<string, string>
  const object = Object.values(named).at(-1)
  if (object === undefined) return null
  return named.sandboxID === object ? object.split('-', 1)[0]! : object.slice(0, 256)
}

const idNames = ['volumeID', 'secretID', 'personID', 'templateID', 'id', 'teamID'] as const

/** The ID of what the request has made, by its answer. */
export function objectMade(payload: unknown): string | null {
  if (Array.isArray(payload)) {
    const made = payload.slice(0, 10).flatMap((each) => objectMade(each?.sandbox) ?? [])
    return made.length > 0 ? made.join(' ') : null
  }
  if (typeof payload !== 'object' || payload === null) return null
  const values = payload as Record<string, unknown>
  const { sandboxID } = values
  if (typeof sandboxID === 'string') return sandboxID.split('-', 1)[0]!
  const id = idNames.map((name) => values[name]).find((value) => typeof value === 'string')
  return typeof id === 'string' ? id.slice(0, 256) : null
}
