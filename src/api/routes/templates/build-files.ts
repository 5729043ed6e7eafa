/** Files for COPY: a link that is good for one team, hash and half an hour, and the place it leads to. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import { FilesAnswer, FilesPath } from '../../../contract/rest/template.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'

const linkGoodForMs = 30 * 60_000

export function buildFilesRoutes(app: Api, context: RouteContext): void {
  const { auth, buildFiles, templates, clock, uploads } = context
  const sign = (text: string) => createHmac('sha256', uploads.secret).update(text).digest('base64url')

  app.get(
    '/templates/:templateID/files/:hash',
    {
      onRequest: auth.requireTeam,
      schema: {
        summary: 'Ask where to put the files of a COPY',
        tags: ['templates'],
        security: [{ ApiKeyAuth: [] }],
        params: FilesPath,
        response: { 201: FilesAnswer, ...failures },
      },
    },
    async (request, reply) => {
      const { templateID, hash } = request.params
      if (!/^[0-9a-f]{64}$/.test(hash)) throw new AppError('invalid_argument', 'Invalid files hash')
      const { teamID } = auth.teamOf(request)
      await templates.own(auth.teamOf(request), templateID)
      const expires = String(clock.now() + linkGoodForMs)
      const signature = sign(`${teamID}/${hash}/${expires}`)
      const path = `/build-files/${teamID}/${hash}?expires=${expires}&signature=${signature}`
      const present = await buildFiles.has(teamID, hash)
      return reply.code(201).send({ present, url: `${originOf(request)}${path}` })
    },
  )

  void app.register(async (scope) => {
    // The body goes to disk as it comes.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
    scope.put(
      '/build-files/:teamID/:hash',
      {
        bodyLimit: uploads.maxBytes,
        config: { streamsBody: true },
        schema: {
          summary: 'Put the files of a COPY where a link says',
          tags: ['templates'],
          params: Type.Object({ teamID: Type.String(), hash: Type.String() }),
          querystring: Type.Object({ expires: Type.String(), signature: Type.String() }),
          response: { 200: Empty, ...failures },
        },
      },
      async (request, reply) => {
        const { teamID, hash } = request.params as { teamID: string; hash: string }
        const { expires, signature } = request.query as { expires: string; signature: string }
        const isSigned = isSame(signature, sign(`${teamID}/${hash}/${expires}`))
        if (!isSigned || Number(expires) < clock.now()) {
          throw new AppError(
            'permission_denied',
            'This link is not valid or has expired; ask for another one',
          )
        }
        const body = (request.body ?? request.raw) as Readable
        // A client hears of a refusal only if what it still sends is read.
        const pieces = body.iterator({ destroyOnReturn: false })
        await buildFiles.write(teamID, hash, pieces, uploads.maxBytes).finally(() => body.resume())
        return reply.code(200).send(undefined)
      },
    )
  })
}

function isSame(given: string, wanted: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(wanted)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** The way the client itself came. */
function originOf(request: FastifyRequest): string {
  const forwarded = request.headers['x-forwarded-proto']
  const protocol = typeof forwarded === 'string' ? forwarded.split(',', 1)[0]! : request.protocol
  return `${protocol === 'https' ? 'https' : 'http'}://${request.headers.host ?? 'localhost'}`
}
