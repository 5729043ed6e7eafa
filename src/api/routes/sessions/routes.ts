/**
 * How people sign in with a provider, who they are, and their sessions. The routes are there only where a provider is set, except
 * `/sign-in`, which otherwise says that there is none.
 */
import type { Api, RouteContext } from '../../context.ts'
import { beginSignInRoute } from './begin-sign-in.ts'
import { endSessionRoute } from './end-session.ts'
import { endSessionsRoute } from './end-sessions.ts'
import { finishSignInRoute } from './finish-sign-in.ts'
import { getMeRoute } from './get-me.ts'
import { listSessionsRoute } from './list-sessions.ts'
import { signOutRoute } from './sign-out.ts'

export function sessionRoutes(app: Api, context: RouteContext): void {
  beginSignInRoute(app, context)
  finishSignInRoute(app, context)
  signOutRoute(app, context)
  getMeRoute(app, context)
  listSessionsRoute(app, context)
  endSessionRoute(app, context)
  endSessionsRoute(app, context)
}
