import { failures } from '../../../contract/rest/shared.ts'
import { NewVolume, VolumeAndToken } from '../../../contract/rest/volume.ts'
import type { Api, RouteContext } from '../../context.ts'
import { exchangeOf } from '../../pass-on.ts'
import { presentVolume, volumeSchema } from './volume-schema.ts'

export function createVolumeRoute(app: Api, context: RouteContext): void {
  app.post(
    '/volumes',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...volumeSchema,
        summary: 'Create an empty volume',
        body: NewVolume,
        response: { 201: VolumeAndToken, ...failures },
      },
    },
    async (request, reply) => {
      const body = () => Buffer.from(JSON.stringify(request.body))
      if (await context.cluster?.volumePlacer.placeVolume(body, exchangeOf(request, reply)))
        return reply.hijack()
      const volume = await context.volumes.create(context.auth.teamOf(request), request.body.name)
      return reply.code(201).send(presentVolume(volume, context, request))
    },
  )
}
