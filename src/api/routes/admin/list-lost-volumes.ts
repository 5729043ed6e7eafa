import { Type } from 'typebox'
import { LostVolumeEntry } from '../../../contract/rest/lost-volume.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { dateTime } from '../../present.ts'
import { adminSchema } from './admin-schema.ts'

export function listLostVolumesRoute(app: Api, { auth, volumes }: RouteContext): void {
  app.get(
    '/admin/lost-volumes',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'List the volumes that were lost with forgotten nodes, oldest first',
        response: { 200: Type.Array(LostVolumeEntry), ...failures },
      },
    },
    async () =>
      (await volumes.listLost()).map(({ volumeID, name, teamID, nodeID, sizeMB, lostAt, foundAt }) => ({
        volumeID,
        name,
        teamID,
        nodeID,
        sizeMB,
        lostAt: dateTime(lostAt),
        foundAt: foundAt === null ? null : dateTime(foundAt),
      })),
  )
}
