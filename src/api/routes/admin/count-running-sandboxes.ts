import { failures } from '../../../contract/rest/shared.ts'
import { RunningCounts } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

export function countRunningSandboxesRoute(app: Api, { auth, usage }: RouteContext): void {
  app.get(
    '/admin/sandboxes/running-counts',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Count the running sandboxes of each team that has some',
        response: { 200: RunningCounts, ...failures },
      },
    },
    () => usage.runningCounts(),
  )
}
