import { NewSecret, Secret } from '../../../contract/rest/secret.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { confidential, presentSecret, schema } from './confidential.ts'

export function createSecretRoute(app: Api, context: RouteContext): void {
  app.post(
    '/secrets',
    {
      ...confidential(context),
      schema: {
        ...schema,
        summary: 'Create a secret with its first value',
        body: NewSecret,
        response: { 201: Secret, ...failures },
      },
    },
    async (request, reply) => {
      const secret = await context.secrets.create(context.auth.teamOf(request), request.body)
      return reply.code(201).send(presentSecret(secret))
    },
  )
}
