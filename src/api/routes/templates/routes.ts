import type { Api, RouteContext } from '../../context.ts'
import { buildFilesRoutes } from './build-files.ts'
import { buildStatusRoutes } from './build-status.ts'
import { changeTemplatesRoutes } from './change-templates.ts'
import { deleteTemplateRoute } from './delete-template.ts'
import { readTemplatesRoutes } from './read-templates.ts'
import { requestTemplateRoutes } from './request-template.ts'
import { startBuildRoute } from './start-build.ts'

export function templateRoutes(app: Api, context: RouteContext): void {
  requestTemplateRoutes(app, context)
  startBuildRoute(app, context)
  buildStatusRoutes(app, context)
  buildFilesRoutes(app, context)
  readTemplatesRoutes(app, context)
  changeTemplatesRoutes(app, context)
  deleteTemplateRoute(app, context)
}
