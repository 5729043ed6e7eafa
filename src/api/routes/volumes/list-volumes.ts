import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import { Volume } from '../../../contract/rest/volume.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentListedVolume, volumeSchema } from './volume-schema.ts'

export function listVolumesRoute(app: Api, context: RouteContext): void {
  app.get(
    '/volumes',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...volumeSchema,
        summary: 'List the volumes of the team',
        response: { 200: Type.Array(Volume), ...failures },
      },
    },
    async (request) => {
      const volumes = await context.volumes.list(context.auth.teamOf(request))
      return volumes.map(presentListedVolume)
    },
  )
}
