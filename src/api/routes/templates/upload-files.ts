import type { Readable } from 'node:stream'
import { Type } from 'typebox'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { checkUploadLink, type UploadTarget } from './upload-links.ts'

export function uploadFilesRoute(app: Api, context: RouteContext): void {
  const { buildFiles, clock, uploads } = context
  void app.register(async (scope) => {
    // Writes the body to disk as it arrives, whatever its type.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
    scope.put(
      '/build-files/:teamID/:hash',
      {
        bodyLimit: uploads.maxBytes,
        config: { streamsBody: true },
        schema: {
          summary: 'Upload the files of a COPY to a link',
          tags: ['templates'],
          params: Type.Object({ teamID: Type.String(), hash: Type.String() }),
          querystring: Type.Object({ expires: Type.String(), signature: Type.String() }),
          response: { 200: Empty, ...failures },
        },
      },
      async (request, reply) => {
        const target = request.params as UploadTarget
        const query = request.query as { expires: string; signature: string }
        checkUploadLink(target, query, uploads.secret, clock.now())
        const body = (request.body ?? request.raw) as Readable
        // A client reads the error only after the server has read everything that the client still sends.
        const pieces = body.iterator({ destroyOnReturn: false })
        const { teamID, hash } = target
        const gone = new AbortController()
        reply.raw.once('close', () => gone.abort())
        await buildFiles
          .write(teamID, hash, pieces, uploads.maxBytes, gone.signal)
          .finally(() => body.resume())
        return reply.code(200).send(undefined)
      },
    )
  })
}
