import { failures } from '../../../contract/rest/shared.ts'
import { VolumeAndToken, VolumePath } from '../../../contract/rest/volume.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentVolume, volumeSchema } from './volume-schema.ts'

export function getVolumeRoute(app: Api, context: RouteContext): void {
  app.get(
    '/volumes/:volumeID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...volumeSchema,
        summary: 'Read a volume, with a fresh token for its content',
        params: VolumePath,
        response: { 200: VolumeAndToken, ...failures },
      },
    },
    async (request) => {
      const volume = await context.volumes.get(context.auth.teamOf(request), request.params.volumeID)
      return presentVolume(volume, context, request)
    },
  )
}
