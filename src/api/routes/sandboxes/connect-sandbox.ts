import { ConnectV1, ConnectV2, Sandbox, SandboxPath } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentSandbox } from '../../present.ts'
import { parseSandboxID } from '../../sandbox-id.ts'
import { sandboxSchema } from './sandbox-schema.ts'

const defaultTimeoutSeconds = 300

const versions = [
  { path: '/sandboxes/:sandboxID/connect', body: ConnectV1 },
  { path: '/v2/sandboxes/:sandboxID/connect', body: ConnectV2 },
]

export function connectSandboxRoutes(app: Api, context: RouteContext): void {
  for (const { path, body } of versions) {
    app.post(
      path,
      {
        onRequest: context.auth.requireTeam,
        config: { worksWithoutMemory: true },
        schema: {
          ...sandboxSchema,
          summary: 'Connect to a sandbox and keep it for at least the given time; a paused one is resumed',
          params: SandboxPath,
          body,
          response: { 200: Sandbox, 201: Sandbox, ...failures },
        },
      },
      async (request, reply) => {
        const sandboxID = parseSandboxID(request.params.sandboxID)
        const timeoutMs = (request.body?.timeout ?? defaultTimeoutSeconds) * 1000
        const memory = request.body?.memory ?? true
        const team = context.auth.teamOf(request)
        const { sandbox, resumed } = await context.sandboxes.connect(team, sandboxID, { timeoutMs, memory })
        return reply.code(resumed ? 201 : 200).send(presentSandbox(sandbox, context, request))
      },
    )
  }
}
