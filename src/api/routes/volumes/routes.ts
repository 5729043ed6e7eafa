import type { Api, RouteContext } from '../../context.ts'
import { createVolumeRoute } from './create-volume.ts'
import { deleteVolumeRoute } from './delete-volume.ts'
import { getVolumeRoute } from './get-volume.ts'
import { listVolumesRoute } from './list-volumes.ts'

export function volumeRoutes(app: Api, context: RouteContext): void {
  listVolumesRoute(app, context)
  createVolumeRoute(app, context)
  getVolumeRoute(app, context)
  deleteVolumeRoute(app, context)
}
