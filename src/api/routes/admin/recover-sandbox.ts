import { QuarantinePath, RecoveredSandbox } from '../../../contract/rest/quarantine.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

export function recoverSandboxRoute(app: Api, { auth, quarantine }: RouteContext): void {
  app.post(
    '/admin/quarantine/:snapshotName/recover',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Recover the sandbox of a snapshot in quarantine as a paused sandbox of its team',
        params: QuarantinePath,
        response: { 200: RecoveredSandbox, ...failures },
      },
    },
    async (request) => {
      const { sandboxID, teamID } = await quarantine.recover(request.params.snapshotName)
      return { sandboxID, teamID }
    },
  )
}
