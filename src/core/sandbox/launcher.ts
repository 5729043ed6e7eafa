/** Makes a row real: a started sandbox whose agent knows who it is. Knows no states and no limits. */
import { AppError, errorText, isAppError } from '../../lib/app-error.ts'
import { type AgentPort, agentPort } from '../agent.ts'
import type { Driver, DriverHandle } from '../driver.ts'
import type { TemplateBuild } from '../template/template.ts'
import { createFailed } from './errors.ts'
import type { Route, RouteTable } from './routes.ts'
import type { NewSandbox, Sandbox, SandboxOptions } from './sandbox.ts'
import type { SandboxTokens } from './tokens.ts'
import type { WarmPool, WarmSandbox, WarmSpec } from './warm-pool.ts'

const agentReadyWithinMs = 30_000

export type LauncherParts = {
  driver: Driver
  agent: AgentPort
  routes: RouteTable
  tokens: SandboxTokens
  warm: WarmPool
  /** Where the root filesystem of a build lies on this machine. */
  rootFolderOf: (build: TemplateBuild) => string
}

export class SandboxLauncher {
  readonly #parts: LauncherParts

  constructor(parts: LauncherParts) {
    this.#parts = parts
  }

  specOf(build: TemplateBuild, options: Pick<SandboxOptions, 'allowInternetAccess'>): WarmSpec {
    return {
      rootFolder: this.#parts.rootFolderOf(build),
      cpuCount: build.cpuCount,
      memoryMB: build.memoryMB,
      diskMB: build.diskMB,
      internet: options.allowInternetAccess !== false,
    }
  }

  /**
   * Starts the sandbox, unless one that runs already is handed in. `onHandle` is called as soon as there is
   * something to clean up. Rejects with nothing left behind.
   */
  async launch(
    row: NewSandbox,
    build: TemplateBuild,
    warm: WarmSandbox | undefined,
    signal: AbortSignal,
    onHandle: (handle: DriverHandle) => Promise<void>,
  ): Promise<void> {
    const { driver, agent } = this.#parts
    const { sandboxID, runID } = row
    const spec = this.specOf(build, row.options)
    let handle = warm?.handle
    try {
      handle ??= await driver.start({ sandboxID, runID, ...spec }, signal)
      await onHandle(handle)
      const endpoint = driver.endpoint(handle, agentPort)
      const options = { deadlineMs: agentReadyWithinMs, signal }
      await agent.initialize(endpoint, this.#identityOf(row, build), options)
      this.#parts.warm.fill(spec)
    } catch (error) {
      if (handle) await driver.stop(handle)
      throw asCreateError(error)
    }
  }

  #identityOf(row: NewSandbox, build: TemplateBuild) {
    return {
      accessToken: this.#parts.tokens.agent(row.sandboxID),
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
