import { Secret, SecretPath, SecretUpdate } from '../../../contract/rest/secret.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { confidential, presentSecret, schema } from './confidential.ts'

export function updateSecretRoute(app: Api, context: RouteContext): void {
  app.post(
    '/secrets/:secretID',
    {
      ...confidential(context),
      schema: {
        ...schema,
        summary: 'Give a secret a new value, as its next version',
        params: SecretPath,
        body: SecretUpdate,
        response: { 200: Secret, ...failures },
      },
    },
    async (request) => {
      const team = context.auth.teamOf(request)
      return presentSecret(await context.secrets.update(team, request.params.secretID, request.body))
    },
  )
}
