/**
 * Sandboxes that nobody owns, for work of Warren's own: the steps of builds, and services that templates begin
 * with. They have no row; as long as one is open it is known to be under way, and a crash leaves it to the
 * reconciler.
 */
import type { Readable } from 'node:stream'
import { AppError } from '../../../lib/app-error.ts'
import { newSandboxID, newUUID } from '../../../lib/ids.ts'
import type { Log } from '../../../lib/log.ts'
import type { AgentCommand, AgentPort, CommandEnd, CommandOutput } from '../../ports/agent.ts'
import { agentPort } from '../../ports/agent.ts'
import type { Driver, DriverHandle } from '../../ports/driver.ts'
import type { TemplateBuild } from '../../template/template.ts'
import type { SandboxLauncher } from '../launch/launcher.ts'
import type { SandboxTurns } from '../row/sandbox-turns.ts'
import type { SandboxTokens } from '../row/tokens.ts'
import type { SnapshotStore } from '../snapshots/snapshot-store.ts'

type BuildSandboxesParts = {
  driver: Driver
  agent: AgentPort
  tokens: SandboxTokens
  launcher: SandboxLauncher
  snapshots: SnapshotStore
  turns: SandboxTurns
  log: Log
}

type RunOptions = { onOutput?: (output: CommandOutput) => void; signal: AbortSignal }

/** Its sandboxes are no team's. */
const nobody = ''

export class BuildSandboxes {
  readonly #parts: BuildSandboxesParts
  readonly #open = new Map<string, BuildSandbox>()
  /** The template of each sandbox, also while it boots. */
  readonly #templates = new Map<string, string>()

  constructor(parts: BuildSandboxesParts) {
    this.#parts = parts
  }

  /** Ends the sandbox of a build that fills the disk or the memory, so that the build fails. False: it is none of these. */
  endFor(short: keyof typeof endings, sandboxID: string): boolean {
    const found = this.#open.get(sandboxID)
    found?.endBecause(endings[short]())
    return found !== undefined
  }

  /** The template whose build the sandbox works for. Undefined: it works for none. */
  templateOf(sandboxID: string): string | undefined {
    return this.#templates.get(sandboxID)
  }

  /** Boots a sandbox on what the build has so far. Steps have no GPU: only `withGpus` has those of its sandboxes. */
  async open(build: TemplateBuild, signal: AbortSignal, withGpus = false): Promise<BuildSandbox> {
    const { launcher, turns } = this.#parts
    const sandboxID = newSandboxID()
    const done = Promise.withResolvers<void>()
    void turns.begin(sandboxID, () => done.promise)
    const { templateID } = build
    this.#templates.set(sandboxID, templateID)
    const options = { allowInternetAccess: null, network: null }
    const gpuCount = withGpus ? (build.gpuCount ?? 0) : 0
    const row = { sandboxID, runID: newUUID(), teamID: nobody, templateID, envVars: {}, options, gpuCount }
    try {
      const bare = { ...build, startCmd: null, readyCmd: null }
      const handle = await launcher.launch(row, bare, { disposable: true }, signal)
      const opened = new BuildSandbox(this.#parts, sandboxID, handle, () => {
        this.#open.delete(sandboxID)
        this.#templates.delete(sandboxID)
        done.resolve()
      })
      this.#open.set(sandboxID, opened)
      return opened
    } catch (error) {
      this.#templates.delete(sandboxID)
      done.resolve()
      throw error
    }
  }
}

/** End it by `snapshotAndEnd` or by `close`, whatever happens in between. */
export class BuildSandbox {
  readonly sandboxID: string
  readonly #parts: BuildSandboxesParts
  readonly #handle: DriverHandle
  readonly #onEnd: () => void
  #endedBecause: AppError | undefined

  constructor(parts: BuildSandboxesParts, sandboxID: string, handle: DriverHandle, onEnd: () => void) {
    this.#parts = parts
    this.sandboxID = sandboxID
    this.#handle = handle
    this.#onEnd = onEnd
  }

  get endpoint() {
    return this.#parts.driver.endpoint(this.#handle, agentPort)
  }

  get accessToken(): string {
    return this.#parts.tokens.agent(this.sandboxID)
  }

  async run(command: AgentCommand, options: RunOptions): Promise<CommandEnd> {
    try {
      return await this.#parts.agent.run(this.endpoint, this.accessToken, command, options)
    } catch (error) {
      throw this.#endedBecause ?? error
    }
  }

  /** Stops the sandbox; a command that runs in it fails with this reason. */
  endBecause(reason: AppError): void {
    if (this.#endedBecause) return
    this.#endedBecause = reason
    const { sandboxID } = this
    this.#parts.log.error({ sandboxID }, `The sandbox of a build ends: ${reason.message}`)
    void this.#parts.launcher.stop(this.#handle).catch((error) => {
      this.#endedBecause = undefined
      this.#parts.log.error({ sandboxID, err: error }, 'The sandbox of a build could not be stopped yet.')
    })
  }

  /** As root, replacing what is there. */
  write(path: string, body: Readable, signal: AbortSignal): Promise<void> {
    return this.#parts.agent.writeFile(this.endpoint, this.accessToken, path, body, signal)
  }

  /** Above what it was started from. */
  async writtenBytes(): Promise<number> {
    return (await this.#parts.driver.stats(this.#handle)).diskUsedBytes
  }

  /** Takes a snapshot of its files, under a name that the caller holds. The sandbox keeps running. */
  async snapshotFiles(name: string, signal: AbortSignal): Promise<void> {
    const options = { memory: false, afterwards: 'go-on', lasting: true } as const
    await this.#parts.snapshots.takeSnapshot(this.#handle, name, options, signal)
  }

  /** Takes a snapshot under a name that the caller holds, and ends the sandbox. If that fails, it keeps running. */
  async snapshotAndEnd(name: string, memory: boolean, signal: AbortSignal): Promise<void> {
    await this.#parts.snapshots.takeSnapshot(
      this.#handle,
      name,
      { memory, afterwards: 'end', lasting: true },
      signal,
    )
    this.#onEnd()
  }

  /** Does nothing after `snapshotAndEnd`. If the sandbox cannot be stopped, the reconciler ends it. */
  async close(): Promise<void> {
    const { sandboxID } = this
    await this.#parts.launcher
      .stop(this.#handle)
      .catch((error) =>
        this.#parts.log.warn({ sandboxID, err: error }, 'The sandbox of a build could not be stopped yet.'),
      )
      .finally(this.#onEnd)
  }
}

const endings = {
  disk: () =>
    new AppError(
      'no_space',
      'The disk of this server is nearly full, and this build was writing to it. Free some space, then build again.',
      { retry: { should: false } },
    ),
  memory: () =>
    new AppError(
      'unavailable',
      'The memory of this server is nearly used up, and this build was taking more of it. Build again later.',
      { retry: { should: true } },
    ),
}
