import { Empty } from '../../../contract/rest/shared.ts'
import { contentFailures, EntryQuery } from '../../../contract/rest/volume.ts'
import type { Api, RouteContext } from '../../context.ts'
import { contentSchema, withFiles } from './content-request.ts'

export function removeEntryRoute(app: Api, context: RouteContext): void {
  app.delete(
    '/volumecontent/:volumeID/path',
    {
      schema: {
        ...contentSchema,
        summary: 'Remove a file, or a folder with its contents, from a volume',
        querystring: EntryQuery,
        response: { 204: Empty, ...contentFailures },
      },
    },
    async (request, reply) => {
      await withFiles(context, request, (files) => files.remove(request.query.path))
      return reply.code(204).send(null)
    },
  )
}
