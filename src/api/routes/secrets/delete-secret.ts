import { SecretPath } from '../../../contract/rest/secret.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { confidential, schema } from './confidential.ts'

export function deleteSecretRoute(app: Api, context: RouteContext): void {
  app.delete(
    '/secrets/:secretID',
    {
      ...confidential(context),
      schema: {
        ...schema,
        summary: 'Delete a secret with all its versions',
        params: SecretPath,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      await context.secrets.delete(context.auth.teamOf(request), request.params.secretID)
      return reply.code(204).send(null)
    },
  )
}
