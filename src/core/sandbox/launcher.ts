/** Makes a row real: a started sandbox whose agent knows who it is. Knows no states and no limits. */
import { AppError, errorText, isAppError } from '../../lib/app-error.ts'
import { type AgentPort, agentPort } from '../agent.ts'
import type { Driver, DriverHandle } from '../driver.ts'
import type { TemplateBuild } from '../template/template.ts'
import { createFailed } from './errors.ts'
import type { Route, RouteTable } from './routes.ts'
import type { NewSandbox, Sandbox } from './sandbox.ts'
import type { SandboxTokens } from './tokens.ts'

const agentReadyWithinMs = 30_000

export type LauncherParts = {
  driver: Driver
  agent: AgentPort
  routes: RouteTable
  tokens: SandboxTokens
  /** Where the root filesystem of a build lies on this machine. */
  rootFolderOf: (build: TemplateBuild) => string
}

export class SandboxLauncher {
  readonly #parts: LauncherParts

  constructor(parts: LauncherParts) {
    this.#parts = parts
  }

  /** `onHandle` is called as soon as there is something to clean up. Rejects with nothing left behind. */
  async launch(
    row: NewSandbox,
    build: TemplateBuild,
    signal: AbortSignal,
    onHandle: (handle: DriverHandle) => Promise<void>,
  ): Promise<void> {
    const { driver, agent, tokens, rootFolderOf } = this.#parts
    let handle: DriverHandle | undefined
    try {
      handle = await driver.start(
        {
          sandboxID: row.sandboxID,
          runID: row.runID,
          rootFolder: rootFolderOf(build),
          cpuCount: row.cpuCount,
          memoryMB: row.memoryMB,
          diskMB: row.diskMB,
          internet: row.options.allowInternetAccess !== false,
        },
        signal,
      )
      await onHandle(handle)
      const identity = {
        accessToken: tokens.agent(row.sandboxID),
        envVars: {
          ...build.envVars,
          ...row.envVars,
          E2B_SANDBOX: 'true',
          E2B_SANDBOX_ID: row.sandboxID,
          E2B_TEMPLATE_ID: row.templateID,
        },
        defaultUser: build.defaultUser,
        defaultWorkdir: build.defaultWorkdir,
      }
      const endpoint = driver.endpoint(handle, agentPort)
      await agent.initialize(endpoint, identity, { deadlineMs: agentReadyWithinMs, signal })
    } catch (error) {
      if (handle) await driver.stop(handle)
      throw asCreateError(error)
    }
  }

  openRoute(sandbox: Sandbox): void {
    const { driver, routes, tokens } = this.#parts
    const { sandboxID, runID, handle } = sandbox
    if (!handle) throw new AppError('internal', `Sandbox "${sandboxID}" runs but has no handle`)
    const route: Route = {
      sandboxID,
      runID,
      endpoint: (port) => driver.endpoint(handle, port),
      agentToken: tokens.agent(sandboxID),
      trafficToken: sandbox.options.network?.allowPublicTraffic === false ? tokens.traffic(sandboxID) : null,
    }
    routes.set(route)
  }

  /** Open connections are cut before the processes end, so that no client sees a clean end of stream. */
  async remove(sandboxID: string, runID: string, handle: DriverHandle | null): Promise<void> {
    this.#parts.routes.remove(sandboxID, runID)
    if (handle) await this.#parts.driver.stop(handle)
  }
}

function asCreateError(error: unknown): AppError {
  if (isAppError(error) && error.code !== 'internal') return error
  return createFailed(error, errorText(error))
}
