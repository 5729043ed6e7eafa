import { Type } from 'typebox'
import { header } from '../../../contract/constants.ts'
import { Secret, SecretQuery } from '../../../contract/rest/secret.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { cutPage, decodeCursor, encodeCursor } from '../../paging.ts'
import { confidential, presentSecret, schema } from './confidential.ts'

const defaultLimit = 100
const order = 'desc'

export function listSecretsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/secrets',
    {
      ...confidential(context),
      schema: {
        ...schema,
        summary: 'List secrets, newest first, page by page',
        querystring: SecretQuery,
        response: { 200: Type.Array(Secret), ...failures },
      },
    },
    async (request, reply) => {
      const { limit = defaultLimit, nextToken } = request.query
      const cursor = nextToken ? decodeCursor(nextToken, order) : undefined
      const rows = await context.secrets.list(context.auth.teamOf(request), {
        limit: limit + 1,
        ...(cursor && { after: { createdAt: cursor.at, secretID: cursor.id } }),
      })
      const { page, last } = cutPage(rows, limit)
      if (last) reply.header(header.nextToken, encodeCursor({ at: last.createdAt, id: last.secretID }, order))
      return page.map(presentSecret)
    },
  )
}
