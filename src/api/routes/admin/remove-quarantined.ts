import { QuarantinePath } from '../../../contract/rest/quarantine.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

export function removeQuarantinedRoute(app: Api, { auth, quarantine }: RouteContext): void {
  app.delete(
    '/admin/quarantine/:snapshotName',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Remove a snapshot from quarantine and from the disk now',
        params: QuarantinePath,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      await quarantine.remove(request.params.snapshotName)
      return reply.code(204).send(null)
    },
  )
}
