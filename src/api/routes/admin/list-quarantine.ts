import { Type } from 'typebox'
import { QuarantineEntry } from '../../../contract/rest/quarantine.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { dateTime } from '../../present.ts'
import { adminSchema } from './admin-schema.ts'

export function listQuarantineRoute(app: Api, { auth, quarantine }: RouteContext): void {
  app.get(
    '/admin/quarantine',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'List the snapshots in quarantine, oldest first',
        response: { 200: Type.Array(QuarantineEntry), ...failures },
      },
    },
    async () =>
      (await quarantine.list()).map(({ snapshotName, sandboxID, reason, since, deletedAt }) => ({
        snapshotName,
        sandboxID,
        reason,
        since: dateTime(since),
        deletedAt: dateTime(deletedAt),
      })),
  )
}
