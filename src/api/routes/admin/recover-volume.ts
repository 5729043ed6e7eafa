import { LostVolumePath, RecoveredVolume, VolumeRecovery } from '../../../contract/rest/lost-volume.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

export function recoverVolumeRoute(app: Api, { auth, volumes }: RouteContext): void {
  app.post(
    '/admin/lost-volumes/:lostVolumeID/recover',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Give a lost volume whose disk is back to its team again',
        params: LostVolumePath,
        body: VolumeRecovery,
        response: { 200: RecoveredVolume, ...failures },
      },
    },
    async (request) => {
      const { volumeID, name, teamID } = await volumes.recover(request.params.lostVolumeID, request.body.name)
      return { volumeID, name, teamID }
    },
  )
}
