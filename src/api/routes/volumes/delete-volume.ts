import { Empty, failures } from '../../../contract/rest/shared.ts'
import { VolumePath } from '../../../contract/rest/volume.ts'
import type { Api, RouteContext } from '../../context.ts'
import { volumeSchema } from './volume-schema.ts'

export function deleteVolumeRoute(app: Api, context: RouteContext): void {
  app.delete(
    '/volumes/:volumeID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...volumeSchema,
        summary: 'Delete a volume with its contents, unless sandboxes have it mounted',
        params: VolumePath,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      await context.volumes.delete(context.auth.teamOf(request), request.params.volumeID)
      return reply.code(204).send(null)
    },
  )
}
