import { Resume } from '../../../contract/rest/lifecycle.ts'
import { Sandbox, SandboxPath } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentSandbox } from '../../present.ts'
import { parseSandboxID } from '../../sandbox-id.ts'
import { sandboxSchema } from './sandbox-schema.ts'

const defaultTimeoutSeconds = 15

export function resumeSandboxRoute(app: Api, context: RouteContext): void {
  app.post(
    '/sandboxes/:sandboxID/resume',
    {
      onRequest: context.auth.requireTeam,
      config: { worksWithoutMemory: true },
      schema: {
        ...sandboxSchema,
        summary: 'Resume a paused sandbox',
        deprecated: true,
        params: SandboxPath,
        body: Resume,
        response: { 201: Sandbox, ...failures },
      },
    },
    async (request, reply) => {
      const sandboxID = parseSandboxID(request.params.sandboxID)
      const sandbox = await context.sandboxes.resume(context.auth.teamOf(request), sandboxID, {
        timeoutMs: (request.body?.timeout ?? defaultTimeoutSeconds) * 1000,
        memory: request.body?.memory ?? true,
      })
      return reply.code(201).send(presentSandbox(sandbox, context, request))
    },
  )
}
