import type { Api, RouteContext } from '../../context.ts'
import { connectSandboxRoutes } from './connect-sandbox.ts'
import { createSandboxRoutes } from './create-sandbox.ts'
import { forkSandboxRoute } from './fork-sandbox.ts'
import { getSandboxRoute } from './get-sandbox.ts'
import { sandboxLogsRoutes } from './get-sandbox-logs.ts'
import { sandboxMetricsRoutes } from './get-sandbox-metrics.ts'
import { killSandboxRoute } from './kill-sandbox.ts'
import { listSandboxesRoutes } from './list-sandboxes.ts'
import { pauseSandboxRoute } from './pause-sandbox.ts'
import { refreshSandboxRoute } from './refresh-sandbox.ts'
import { resumeSandboxRoute } from './resume-sandbox.ts'
import { setSandboxNetworkRoute } from './set-sandbox-network.ts'
import { setSandboxTimeoutRoute } from './set-sandbox-timeout.ts'
import { snapshotSandboxRoute } from './snapshot-sandbox.ts'

export function sandboxRoutes(app: Api, context: RouteContext): void {
  createSandboxRoutes(app, context)
  listSandboxesRoutes(app, context)
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
  sandboxMetricsRoutes(app, context)
  sandboxLogsRoutes(app, context)
}
