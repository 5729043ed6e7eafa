import { Secret, SecretPath } from '../../../contract/rest/secret.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { confidential, presentSecret, schema } from './confidential.ts'

export function getSecretRoute(app: Api, context: RouteContext): void {
  app.get(
    '/secrets/:secretID',
    {
      ...confidential(context),
      schema: {
        ...schema,
        summary: 'Read a secret without its value',
        params: SecretPath,
        response: { 200: Secret, ...failures },
      },
    },
    async (request) =>
      presentSecret(await context.secrets.get(context.auth.teamOf(request), request.params.secretID)),
  )
}
