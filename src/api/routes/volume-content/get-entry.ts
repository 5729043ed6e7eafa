import { contentFailures, EntryQuery, VolumeEntryStat } from '../../../contract/rest/volume.ts'
import type { Api, RouteContext } from '../../context.ts'
import { contentSchema, presentEntry, withFiles } from './content-request.ts'

export function getEntryRoute(app: Api, context: RouteContext): void {
  app.get(
    '/volumecontent/:volumeID/path',
    {
      schema: {
        ...contentSchema,
        summary: 'Describe a file, a folder or a symbolic link in a volume',
        querystring: EntryQuery,
        response: { 200: VolumeEntryStat, ...contentFailures },
      },
    },
    (request) =>
      withFiles(context, request, async (files) => presentEntry(await files.stat(request.query.path))),
  )
}
