import { Readable } from 'node:stream'
import { Type } from 'typebox'
import { contentFailures, ListQuery, VolumeEntryStat } from '../../../contract/rest/volume.ts'
import type { VolumeEntry } from '../../../core/volume/volume-files.ts'
import type { Api, RouteContext } from '../../context.ts'
import { contentSchema, presentEntry, sendStream, withFiles } from './content-request.ts'

export function listFolderRoute(app: Api, context: RouteContext): void {
  app.get(
    '/volumecontent/:volumeID/dir',
    {
      schema: {
        ...contentSchema,
        summary: 'List the entries of a folder in a volume, and of the folders below it to a depth',
        querystring: ListQuery,
        response: { 200: Type.Array(VolumeEntryStat), ...contentFailures },
      },
    },
    (request, reply) =>
      withFiles(context, request, async (files) => {
        const { path, depth = 1 } = request.query
        const parts = files.list(path, depth)
        try {
          // A path that is not a folder fails here, before anything is sent.
          const first = await parts.next()
          reply.type('application/json; charset=utf-8')
          return await sendStream(reply, Readable.from(asJson(first, parts), { objectMode: false }))
        } finally {
          await parts.return(undefined)
        }
      }),
  )
}

/** Streamed, because a folder may have more entries than fit into memory. */
async function* asJson(
  first: IteratorResult<VolumeEntry[]>,
  rest: AsyncGenerator<VolumeEntry[]>,
): AsyncGenerator<string> {
  yield '['
  let separator = ''
  for (let part = first; !part.done; part = await rest.next()) {
    if (part.value.length === 0) continue
    yield separator + part.value.map((entry) => JSON.stringify(presentEntry(entry))).join(',')
    separator = ','
  }
  yield ']'
}
