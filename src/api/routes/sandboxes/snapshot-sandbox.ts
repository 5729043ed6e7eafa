import { NewSnapshot, Snapshot } from '../../../contract/rest/lifecycle.ts'
import { SandboxPath } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { parseOwnName } from '../../../core/template/service.ts'
import type { Api, RouteContext } from '../../context.ts'
import { parseSandboxID } from '../../sandbox-id.ts'

export function snapshotSandboxRoute(app: Api, context: RouteContext): void {
  app.post(
    '/sandboxes/:sandboxID/snapshots',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        summary: 'Take a snapshot of a running sandbox as a template',
        tags: ['snapshots'],
        security: [{ ApiKeyAuth: [] }],
        params: SandboxPath,
        body: NewSnapshot,
        response: { 201: Snapshot, ...failures },
      },
    },
    async (request, reply) => {
      const sandboxID = parseSandboxID(request.params.sandboxID)
      const { name, memory } = request.body
      const team = context.auth.teamOf(request)
      const snapshot = await context.sandboxes.snapshot(team, sandboxID, {
        ...(name !== undefined && { name: parseOwnName(team, name) }),
        memory: memory ?? true,
      })
      return reply.code(201).send(snapshot)
    },
  )
}
