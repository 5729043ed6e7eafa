import type { Api, RouteContext } from '../../context.ts'
import { addMemberRoute } from './add-member.ts'
import { changeMemberRoute } from './change-member.ts'
import { listMembersRoute } from './list-members.ts'
import { removeMemberRoute } from './remove-member.ts'

export function memberRoutes(app: Api, context: RouteContext): void {
  listMembersRoute(app, context)
  addMemberRoute(app, context)
  changeMemberRoute(app, context)
  removeMemberRoute(app, context)
}
