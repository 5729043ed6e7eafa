/**
 * A context: a language, a folder, and the kernel with the state of its cells. Cells run one after another.
 */
import { resolve } from 'node:path'
import { AppError, errorText } from '../lib/app-error.ts'
import { newUUID } from '../lib/ids.ts'
import { KeyedLock } from '../lib/keyed-lock.ts'
import type { VariableChanges } from './bash-variables.ts'
import type { KernelEvent } from './event-lines.ts'
import { type CellListener, Kernel } from './kernel.ts'
import { kernelKind, noKernel } from './languages.ts'

export type ContextRequest = { language: string; cwd: string }

type Execution = {
  code: string
  variables: Record<string, string>
  /** The token from the client; the agent gives the sandbox's variables to its holder. */
  accessToken: string | undefined
  /** Aborts when nobody waits for the cell any more. */
  signal: AbortSignal
}

/** Rejects for a token that is not the sandbox's. */
export type ReadVariables = (accessToken: string | undefined) => Promise<Record<string, string> | undefined>

export type ContextParts = {
  /** The folder of the kernels. */
  kernelsFolder: string
  /** The folder in which a kernel starts by default. */
  homeFolder: string
  readVariables: ReadVariables
}

export class Context {
  readonly id = newUUID()
  readonly language: string
  /** As the client gave it. */
  readonly cwd: string
  readonly #folder: string
  readonly #parts: ContextParts
  readonly #turn = new KeyedLock()
  #kernel: Kernel
  #started: Promise<void>
  #isClosed = false
  /** The sandbox's variables in the kernel, and the token with which they were read. */
  #known: { variables: Record<string, string>; accessToken: string | undefined } | undefined

  constructor({ language, cwd }: ContextRequest, parts: ContextParts) {
    this.language = language
    this.cwd = cwd
    this.#folder = resolve(parts.homeFolder, cwd)
    this.#parts = parts
    this.#kernel = this.#newKernel()
    this.#started = this.#begin(this.#kernel)
  }

  /** Rejects if there is no kernel for the language, or if it cannot enter the folder. */
  get started(): Promise<void> {
    return this.#started
  }

  /** Ends the running cell, and drops all state. */
  async restart(): Promise<void> {
    this.#kernel.kill()
    await this.#replaceKernel()
  }

  close(): void {
    this.#isClosed = true
    this.#kernel.kill()
  }

  pauseOutput(): void {
    this.#kernel.pauseOutput()
  }

  resumeOutput(): void {
    this.#kernel.resumeOutput()
  }

  /** Resolves when the cell has ended in any way; `listener` gets the outcome. */
  execute(execution: Execution, listener: CellListener): Promise<void> {
    return this.#turn.run('', async () => {
      if (execution.signal.aborted) return
      await this.#started.catch(() => this.#replaceKernel())
      const kernel = this.#kernel
      const changes = await this.#changesFor(execution)
      const interrupt = () => kernel.interrupt()
      if (execution.signal.aborted) return
      execution.signal.addEventListener('abort', interrupt, { once: true })
      const isDone = await kernel.run({ code: execution.code, ...changes }, listener)
      execution.signal.removeEventListener('abort', interrupt)
      if (!isDone) await this.#afterDeath(listener)
    })
  }

  async #afterDeath({ onEvent }: CellListener): Promise<void> {
    const value =
      'The kernel ended while it ran the cell and was restarted: the state of the context is lost.'
    onEvent({ type: 'error', name: 'ContextRestarting', value, traceback: '' } satisfies KernelEvent)
    // A requested restart has replaced the kernel already.
    await this.#started.catch(() => {})
  }

  #newKernel(): Kernel {
    const kind = kernelKind(this.language)
    if (!kind) throw noKernel(this.language)
    const kernel = new Kernel(kind, this.#parts.kernelsFolder, this.#folder)
    this.#known = undefined
    void kernel.ended.then(() => {
      // A kernel that never became ready would only fail again.
      if (this.#kernel === kernel && kernel.isReady) void this.#replaceKernel().catch(() => {})
    })
    return kernel
  }

  async #begin(kernel: Kernel): Promise<void> {
    await kernel.ready()
    await kernel.enterFolder(this.#folder)
  }

  async #replaceKernel(): Promise<void> {
    if (this.#isClosed) return
    const kernel = this.#newKernel()
    this.#kernel = kernel
    // A cell may have removed the folder.
    this.#started = kernel
      .ready()
      .then(() =>
        kernel
          .enterFolder(this.#folder)
          .catch(() => kernel.enterFolder(this.#parts.homeFolder).catch(() => {})),
      )
    this.#started.catch(() => {})
    await this.#started.catch((error) => {
      throw new AppError('unavailable', `The context could not be started again: ${errorText(error)}`)
    })
  }

  /** A fork has the memory of its origin, but its own variables and token. */
  async #changesFor({ variables, accessToken }: Execution): Promise<{
    set: VariableChanges
    restore: VariableChanges
  }> {
    const known = this.#known?.variables ?? {}
    const isCurrent = this.#known !== undefined && this.#known.accessToken === accessToken
    const fresh = isCurrent ? known : ((await this.#parts.readVariables(accessToken)) ?? known)
    this.#known = { variables: fresh, accessToken }
    const gone = Object.keys(known).filter((name) => !Object.hasOwn(fresh, name))
    return {
      set: {
        ...Object.fromEntries(gone.map((name) => [name, null])),
        ...(isCurrent ? {} : fresh),
        ...variables,
      },
      restore: Object.fromEntries(Object.keys(variables).map((name) => [name, fresh[name] ?? null])),
    }
  }
}
