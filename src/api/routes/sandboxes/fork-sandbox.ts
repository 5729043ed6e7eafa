import { Type } from 'typebox'
import { Fork, ForkResult } from '../../../contract/rest/lifecycle.ts'
import { SandboxPath } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { errorBody } from '../../error-handler.ts'
import { exchangeOf } from '../../pass-on.ts'
import { presentSandbox } from '../../present.ts'
import { parseSandboxID } from '../../sandbox-id.ts'
import { sandboxSchema } from './sandbox-schema.ts'

const defaultTimeoutSeconds = 15

export function forkSandboxRoute(app: Api, context: RouteContext): void {
  app.post(
    '/sandboxes/:sandboxID/fork',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...sandboxSchema,
        summary: 'Start new sandboxes from the present state of a running one',
        params: SandboxPath,
        body: Fork,
        response: { 201: Type.Array(ForkResult), ...failures },
      },
    },
    async (request, reply) => {
      const sandboxID = parseSandboxID(request.params.sandboxID)
      const outcomes = await context.sandboxes.fork(context.auth.teamOf(request), sandboxID, {
        timeoutMs: (request.body?.timeout ?? defaultTimeoutSeconds) * 1000,
        count: request.body?.count ?? 1,
        ownerPersonID: context.auth.requiredCallerOf(request).person?.personID,
      })
      const made = outcomes.flatMap((outcome) => ('sandbox' in outcome ? [outcome.sandbox.sandboxID] : []))
      context.cluster?.forwarder.reportMade(exchangeOf(request, reply), made)
      return reply
        .code(201)
        .send(
          outcomes.map((outcome) =>
            'sandbox' in outcome
              ? { sandbox: presentSandbox(outcome.sandbox, context, request) }
              : { error: errorBody(outcome.error) },
          ),
        )
    },
  )
}
