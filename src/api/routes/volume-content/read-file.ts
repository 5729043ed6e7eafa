import { Type } from 'typebox'
import { contentFailures, EntryQuery } from '../../../contract/rest/volume.ts'
import { parseByteRange } from '../../../lib/byte-range.ts'
import type { Api, RouteContext } from '../../context.ts'
import { contentSchema, sendStream, withFiles } from './content-request.ts'

const File = Type.Unsafe<unknown>(Type.String({ format: 'binary', description: 'The bytes of the file' }))

export function readFileRoute(app: Api, context: RouteContext): void {
  app.get(
    '/volumecontent/:volumeID/file',
    {
      schema: {
        ...contentSchema,
        summary: 'Read a file of a volume, or a range of its bytes',
        querystring: EntryQuery,
        response: { 200: File, 206: File, ...contentFailures },
      },
    },
    (request, reply) =>
      withFiles(context, request, async (files) => {
        const { range: header } = request.headers
        let range: ReturnType<typeof parseByteRange>
        const { size, start, length, stream } = await files.read(request.query.path, (size) => {
          range = header === undefined ? undefined : parseByteRange(header, size)
          if (range === 'unsatisfiable') return { start: 0, length: 0 }
          return range
            ? { start: range.start, length: range.end - range.start + 1 }
            : { start: 0, length: size }
        })
        if (range === 'unsatisfiable') {
          stream.destroy()
          const message = `The file has ${size} bytes: ask for a range within them`
          return reply.code(416).header('content-range', `bytes */${size}`).send({ code: '416', message })
        }
        if (range) reply.code(206).header('content-range', `bytes ${start}-${start + length - 1}/${size}`)
        reply.headers({
          'content-length': length,
          'accept-ranges': 'bytes',
          'x-content-type-options': 'nosniff',
        })
        return sendStream(reply.type('application/octet-stream'), stream)
      }),
  )
}
