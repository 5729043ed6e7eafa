import type { Api, RouteContext } from '../../context.ts'
import { addBuiltInTemplateRoute } from './add-built-in-template.ts'
import { cancelTeamBuildsRoute } from './cancel-team-builds.ts'
import { changeTeamRoute } from './change-team.ts'
import { changeTeamLimitsRoute } from './change-team-limits.ts'
import { countRunningSandboxesRoute } from './count-running-sandboxes.ts'
import { createKeyRoute } from './create-key.ts'
import { createTeamRoute } from './create-team.ts'
import { deleteTeamRoute } from './delete-team.ts'
import { getBuiltInTemplateRoute } from './get-built-in-template.ts'
import { getMachineRoutes } from './get-machine.ts'
import { getMetricsRoute } from './get-metrics.ts'
import { getSharesRoute } from './get-shares.ts'
import { killTeamSandboxesRoute } from './kill-team-sandboxes.ts'
import { listKeysRoute } from './list-keys.ts'
import { listLostVolumesRoute } from './list-lost-volumes.ts'
import { listQuarantineRoute } from './list-quarantine.ts'
import { listTeamsRoute } from './list-teams.ts'
import { pruneRoute } from './prune.ts'
import { recoverSandboxRoute } from './recover-sandbox.ts'
import { recoverVolumeRoute } from './recover-volume.ts'
import { removeQuarantinedRoute } from './remove-quarantined.ts'
import { revokeKeyRoute } from './revoke-key.ts'

/** The operator's routes, which the command line uses. */
export function adminRoutes(app: Api, context: RouteContext): void {
  getMetricsRoute(app, context)
  createTeamRoute(app, context)
  listTeamsRoute(app, context)
  changeTeamRoute(app, context)
  changeTeamLimitsRoute(app, context)
  deleteTeamRoute(app, context)
  killTeamSandboxesRoute(app, context)
  cancelTeamBuildsRoute(app, context)
  countRunningSandboxesRoute(app, context)
  createKeyRoute(app, context)
  listKeysRoute(app, context)
  revokeKeyRoute(app, context)
  addBuiltInTemplateRoute(app, context)
  getBuiltInTemplateRoute(app, context)
  pruneRoute(app, context)
  getMachineRoutes(app, context)
  getSharesRoute(app, context)
  listQuarantineRoute(app, context)
  recoverSandboxRoute(app, context)
  removeQuarantinedRoute(app, context)
  listLostVolumesRoute(app, context)
  recoverVolumeRoute(app, context)
}
