import { Type } from 'typebox'
import { header } from '../../../contract/constants.ts'
import { ListedSnapshot, SnapshotQuery } from '../../../contract/rest/lifecycle.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { cutPage, decodeCursor, encodeCursor } from '../../paging.ts'
import { dateTime } from '../../present.ts'
import { parseSandboxID } from '../../sandbox-id.ts'

const defaultLimit = 100
const order = 'desc'

export function listSnapshotsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/snapshots',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        summary: 'List snapshots, newest first, page by page',
        tags: ['snapshots'],
        security: [{ ApiKeyAuth: [] }],
        querystring: SnapshotQuery,
        response: { 200: Type.Array(ListedSnapshot), ...failures },
      },
    },
    async (request, reply) => {
      const { sandboxID, name, limit = defaultLimit, nextToken } = request.query
      const cursor = nextToken ? decodeCursor(nextToken, order) : undefined
      const rows = await context.catalog.listSnapshots(
        context.auth.teamOf(request),
        {
          ...(sandboxID !== undefined && { sandboxID: parseSandboxID(sandboxID) }),
          ...(name !== undefined && { name }),
        },
        { limit: limit + 1, ...(cursor && { after: { createdAt: cursor.at, templateID: cursor.id } }) },
      )
      const { page, last } = cutPage(rows, limit)
      if (last)
        reply.header(header.nextToken, encodeCursor({ at: last.createdAt, id: last.templateID }, order))
      return page.map(({ snapshotID, names, createdAt, sandboxID, cpuCount, memoryMB, diskMB }) => ({
        snapshotID,
        names,
        createdAt: dateTime(createdAt),
        sandboxID,
        cpuCount,
        memoryMB,
        diskSizeMB: diskMB,
      }))
    },
  )
}
