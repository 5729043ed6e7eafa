import type { Api, RouteContext } from '../../context.ts'
import { assignTagsRoute } from './assign-tags.ts'
import { buildBuiltInRoute } from './build-built-in.ts'
import { countTagsRoute } from './count-tags.ts'
import { deleteTemplateRoute } from './delete-template.ts'
import { findTagRoute } from './find-tag.ts'
import { getAliasRoute } from './get-alias.ts'
import { getBuildLogsRoute } from './get-build-logs.ts'
import { getBuildStatusRoute } from './get-build-status.ts'
import { getBuiltInProgressRoute } from './get-built-in-progress.ts'
import { getTemplateRoute } from './get-template.ts'
import { getUploadLinkRoute } from './get-upload-link.ts'
import { listBuiltInsRoute } from './list-built-ins.ts'
import { listDefaultTemplatesRoute } from './list-default-templates.ts'
import { listTagAssignmentsRoute } from './list-tag-assignments.ts'
import { listTagGroupsRoute } from './list-tag-groups.ts'
import { listTagsRoute } from './list-tags.ts'
import { listTemplatesRoute } from './list-templates.ts'
import { listTemplatesV1Route } from './list-templates-v1.ts'
import { prepareTemplateRoute } from './prepare-template.ts'
import { rebuildTemplateV1Route } from './rebuild-template-v1.ts'
import { removeTagsRoute } from './remove-tags.ts'
import { requestTemplateRoute } from './request-template.ts'
import { requestTemplateV1Route } from './request-template-v1.ts'
import { requestTemplateV2Route } from './request-template-v2.ts'
import { startBuildRoute } from './start-build.ts'
import { startBuildV1Route } from './start-build-v1.ts'
import { updateTemplateRoute } from './update-template.ts'
import { updateTemplateV1Route } from './update-template-v1.ts'
import { uploadFilesRoute } from './upload-files.ts'

export function templateRoutes(app: Api, context: RouteContext): void {
  requestTemplateRoute(app, context)
  requestTemplateV2Route(app, context)
  prepareTemplateRoute(app, context)
  requestTemplateV1Route(app, context)
  rebuildTemplateV1Route(app, context)
  startBuildRoute(app, context)
  startBuildV1Route(app, context)
  getBuildStatusRoute(app, context)
  getBuildLogsRoute(app, context)
  getUploadLinkRoute(app, context)
  uploadFilesRoute(app, context)
  listTemplatesV1Route(app, context)
  listTemplatesRoute(app, context)
  getTemplateRoute(app, context)
  getAliasRoute(app, context)
  updateTemplateRoute(app, context)
  updateTemplateV1Route(app, context)
  assignTagsRoute(app, context)
  removeTagsRoute(app, context)
  listTagsRoute(app, context)
  listDefaultTemplatesRoute(app, context)
  listTagAssignmentsRoute(app, context)
  listTagGroupsRoute(app, context)
  findTagRoute(app, context)
  countTagsRoute(app, context)
  deleteTemplateRoute(app, context)
  listBuiltInsRoute(app, context)
  buildBuiltInRoute(app, context)
  getBuiltInProgressRoute(app, context)
}
