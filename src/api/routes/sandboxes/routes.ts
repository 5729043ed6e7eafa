import type { Api, RouteContext } from '../../context.ts'
import { connectSandboxRoutes } from './connect-sandbox.ts'
import { createSandboxRoutes } from './create-sandbox.ts'
import { forkSandboxRoute } from './fork-sandbox.ts'
import { getSandboxRoute } from './get-sandbox.ts'
import { getSandboxLogsRoute } from './get-sandbox-logs.ts'
import { getSandboxLogsV1Route } from './get-sandbox-logs-v1.ts'
import { getSandboxMetricsRoute } from './get-sandbox-metrics.ts'
import { killSandboxRoute } from './kill-sandbox.ts'
import { listMetricsRoute } from './list-metrics.ts'
import { listRunningSandboxesRoute } from './list-running-sandboxes.ts'
import { listSandboxesRoute } from './list-sandboxes.ts'
import { pauseSandboxRoute } from './pause-sandbox.ts'
import { refreshSandboxRoute } from './refresh-sandbox.ts'
import { resumeSandboxRoute } from './resume-sandbox.ts'
import { setSandboxNetworkRoute } from './set-sandbox-network.ts'
import { setSandboxTimeoutRoute } from './set-sandbox-timeout.ts'
import { snapshotSandboxRoute } from './snapshot-sandbox.ts'

export function sandboxRoutes(app: Api, context: RouteContext): void {
  createSandboxRoutes(app, context)
  listSandboxesRoute(app, context)
  listRunningSandboxesRoute(app, context)
  getSandboxRoute(app, context)
  killSandboxRoute(app, context)
  connectSandboxRoutes(app, context)
  setSandboxTimeoutRoute(app, context)
  refreshSandboxRoute(app, context)
  setSandboxNetworkRoute(app, context)
  pauseSandboxRoute(app, context)
  resumeSandboxRoute(app, context)
  forkSandboxRoute(app, context)
  snapshotSandboxRoute(app, context)
  listMetricsRoute(app, context)
  getSandboxMetricsRoute(app, context)
  getSandboxLogsRoute(app, context)
  getSandboxLogsV1Route(app, context)
}
