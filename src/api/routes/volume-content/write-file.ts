import type { Readable } from 'node:stream'
import { contentFailures, VolumeEntryStat, WriteQuery } from '../../../contract/rest/volume.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { contentSchema, presentEntry, withFiles } from './content-request.ts'

/** A client that sends nothing for this long has disconnected. */
const idleMs = 60_000

export function writeFileRoute(app: Api, context: RouteContext): void {
  void app.register(async (scope: Api) => {
    // Writes the body to the volume as it arrives, whatever its type; the volume's size is its limit.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
    scope.put(
      '/volumecontent/:volumeID/file',
      {
        bodyLimit: Number.MAX_SAFE_INTEGER,
        config: { streamsBody: true },
        schema: {
          ...contentSchema,
          summary: 'Write a file of a volume; it appears when it is complete',
          querystring: WriteQuery,
          response: { 201: VolumeEntryStat, ...contentFailures },
        },
      },
      async (request, reply) => {
        const { path, force = false, ...owner } = request.query
        const body = (request.body ?? request.raw) as Readable
        // The blocks of the volume are on the disk already, so a full disk is no reason to reject.
        const written = await withFiles(
          context,
          request,
          (files) => files.write(path, piecesOf(body), owner, force),
          // A client reads the error only after the server has read everything that the client still sends.
        ).finally(() => body.resume())
        return reply.code(201).send(presentEntry(written))
      },
    )
  })
}

async function* piecesOf(body: Readable): AsyncGenerator<Buffer> {
  const giveUp = () => body.destroy(new AppError('deadline_exceeded', 'The rest of the file did not arrive'))
  const timer = setTimeout(giveUp, idleMs).unref()
  try {
    for await (const piece of body.iterator({ destroyOnReturn: false })) {
      timer.refresh()
      yield piece
    }
  } finally {
    clearTimeout(timer)
  }
}
