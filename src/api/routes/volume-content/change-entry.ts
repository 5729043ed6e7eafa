import { contentFailures, EntryChange, EntryQuery, VolumeEntryStat } from '../../../contract/rest/volume.ts'
import type { Api, RouteContext } from '../../context.ts'
import { contentSchema, presentEntry, withFiles } from './content-request.ts'

export function changeEntryRoute(app: Api, context: RouteContext): void {
  app.patch(
    '/volumecontent/:volumeID/path',
    {
      schema: {
        ...contentSchema,
        summary: 'Change owner and permissions of an entry of a volume',
        querystring: EntryQuery,
        body: EntryChange,
        response: { 200: VolumeEntryStat, ...contentFailures },
      },
    },
    (request) =>
      withFiles(context, request, async (files) =>
        presentEntry(await files.change(request.query.path, request.body)),
      ),
  )
}
