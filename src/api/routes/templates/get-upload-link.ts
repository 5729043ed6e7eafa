import type { FastifyRequest } from 'fastify'
import { failures } from '../../../contract/rest/shared.ts'
import { FilesAnswer, FilesPath } from '../../../contract/rest/template.ts'
import { AppError } from '../../../lib/app-error.ts'
import { originOf as clientOriginOf } from '../../../lib/client-origin.ts'
import type { Api, RouteContext } from '../../context.ts'
import { templateSchema } from './template-schema.ts'
import { uploadLink } from './upload-links.ts'

export function getUploadLinkRoute(app: Api, context: RouteContext): void {
  const { auth, buildFiles, templates, clock, uploads } = context
  app.get(
    '/templates/:templateID/files/:hash',
    {
      onRequest: auth.requireTeam,
      config: { ownedByTemplate: true },
      schema: {
        ...templateSchema,
        summary: 'Get a link to upload the files of a COPY',
        params: FilesPath,
        response: { 201: FilesAnswer, ...failures },
      },
    },
    async (request, reply) => {
      const { templateID, hash } = request.params
      if (!/^[0-9a-f]{64}$/.test(hash)) throw new AppError('invalid_argument', 'Invalid files hash')
      const { teamID } = auth.teamOf(request)
      await templates.own(auth.teamOf(request), templateID)
      const path = uploadLink({ teamID, hash }, uploads.secret, clock.now(), context.cluster?.nodeID)
      const present = await buildFiles.has(teamID, hash)
      return reply.code(201).send({ present, url: `${originOf(request)}${path}` })
    },
  )
}

/** The link uses the same proxies and names as the request that asked for it. */
function originOf(request: FastifyRequest): string {
  const forwarded = request.headers['x-forwarded-proto']
  const { protocol: spoken } = clientOriginOf(request.raw)
  const protocol = typeof forwarded === 'string' ? forwarded.split(',', 1)[0]! : spoken
  return `${protocol === 'https' ? 'https' : 'http'}://${request.headers.host ?? 'localhost'}`
}
