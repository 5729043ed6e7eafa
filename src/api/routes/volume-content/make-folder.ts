import { contentFailures, VolumeEntryStat, WriteQuery } from '../../../contract/rest/volume.ts'
import type { Api, RouteContext } from '../../context.ts'
import { contentSchema, presentEntry, withFiles } from './content-request.ts'

export function makeFolderRoute(app: Api, context: RouteContext): void {
  app.post(
    '/volumecontent/:volumeID/dir',
    {
      schema: {
        ...contentSchema,
        summary: 'Create a folder in a volume',
        querystring: WriteQuery,
        response: { 201: VolumeEntryStat, ...contentFailures },
      },
    },
    async (request, reply) => {
      const { path, force = false, ...owner } = request.query
      const made = await withFiles(context, request, (files) => files.makeFolder(path, owner, force))
      return reply.code(201).send(presentEntry(made))
    },
  )
}
