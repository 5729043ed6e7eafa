/** One kernel: the process that runs the cells of a context, one at a time. Knows no context and no HTTP. */
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { AppError } from '../lib/app-error.ts'
import { newUUID } from '../lib/ids.ts'
import { bashVariables, type VariableChanges } from './bash-variables.ts'
import { type KernelEvent, readEvents } from './event-lines.ts'
import type { KernelKind } from './languages.ts'
import { OutputPipe } from './output-pipe.ts'

/** A busy machine may be slow; a kernel that takes longer than this will not start at all. */
const readyWithinMs = 60_000
const interruptEveryMs = 1000

type Cell = {
  code: string
  /** Set before the cell and restored after it; null removes a variable. */
  set: VariableChanges
  restore: VariableChanges
}

export type CellListener = {
  onOutput: (stream: 'stdout' | 'stderr', text: string) => void
  onEvent: (event: KernelEvent) => void
}

export class Kernel {
  readonly #kind: KernelKind
  readonly #child: ChildProcess
  readonly #outputs: OutputPipe[]
  readonly #ready = Promise.withResolvers<void>()
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>
  #isReady = false
  #marker = ''
  /** Called with the next event of the kernel, or when it ends, for the one cell or request that it has. */
  #onEvent: ((event: KernelEvent) => void) | undefined
  #onEnd: (() => void) | undefined
  #hasEnded = false
  #stopInterrupting: (() => void) | undefined

  /**
   * `folder` is the folder of the kernels. The kernel starts in `cwd` if that folder exists; `enterFolder`
   * tells.
   */
  constructor(kind: KernelKind, folder: string, cwd: string) {
    this.#kind = kind
    const variables = Object.entries(kind.variables).map(([name, value]) => `${name}=${value}`)
    const words = [join(folder, 'launch.sh'), cwd, 'env', ...variables, ...kind.command(folder)]
    const input = kind.protocol === 'bash' ? 'pipe' : 'ignore'
    const control = kind.hasControlPipe ? 'pipe' : 'ignore'
    // In its own process group, so that an interrupt also reaches the processes of the cell.
    this.#child = spawn('/bin/bash', words, {
      detached: true,
      cwd: '/',
      stdio: [input, 'pipe', 'pipe', 'pipe', 'pipe', control],
    })
    const { promise, resolve } = Promise.withResolvers<void>()
    this.ended = promise
    void promise.then(() => {
      this.#hasEnded = true
      this.#onEnd?.()
    })
    this.#child.once('exit', () => {
      // The process that forwards requests to the kernel ends with its input.
      for (const descriptor of [3, 5]) this.#pipe(descriptor)?.destroy()
      resolve()
    })
    this.#child.once('error', () => resolve())
    this.#outputs = [this.#child.stdout!, this.#child.stderr!].map((stream) => new OutputPipe(stream))
    for (const pipe of this.#child.stdio.slice(3)) pipe?.on('error', () => {})
    this.#child.stdin?.on('error', () => {})
    readEvents(
      this.#child.stdio[4] as Readable,
      (event) => this.#handle(event),
      () => this.kill(),
    )
    this.#ready.promise.catch(() => {})
  }

  /** Rejects and kills the kernel if it ended, or was not ready in time. */
  async ready(): Promise<void> {
    const late = setTimeout(() => this.#ready.reject(notReady('it was not ready in time')), readyWithinMs)
    void this.ended.then(() => this.#ready.reject(notReady('its program ended')))
    try {
      await this.#ready.promise
    } catch (error) {
      this.kill()
      throw error
    } finally {
      clearTimeout(late)
    }
  }

  get isReady(): boolean {
    return this.#isReady
  }

  /** Rejects with the kernel's reason if it cannot enter the folder. */
  async enterFolder(path: string): Promise<void> {
    const answer = this.#nextEvent(['done', 'failed'])
    if (this.#kind.protocol === 'bash') this.#ask(`${path}\0`, '__warren_chdir\n')
    else this.#ask(`${JSON.stringify({ type: 'chdir', path })}\n`)
    const event = await answer
    if (event?.type !== 'done') {
      const reason = event?.type === 'failed' ? event.reason : 'the kernel ended'
      throw new AppError('unprocessable', `The folder '${path}' cannot be entered: ${reason}`)
    }
  }

  /** False if the kernel ended before the cell did. */
  async run(cell: Cell, { onOutput, onEvent }: CellListener): Promise<boolean> {
    const marker = `\u0001${newUUID()}\u0001`
    const reads = (['stdout', 'stderr'] as const).map((stream, index) =>
      this.#outputs[index]!.read(marker, (text) => onOutput(stream, text)),
    )
    const done = this.#nextEvent(['done'], onEvent)
    if (this.#kind.protocol === 'bash') {
      const before = bashVariables(cell.set)
      this.#ask(`${cell.code}\0`, `${before}__warren_run ${marker}\n${bashVariables(cell.restore)}`)
    } else this.#ask(`${JSON.stringify({ type: 'execute', ...cell, marker })}\n`)
    this.#marker = marker
    const isDone = (await done) !== undefined
    this.#stopInterrupting?.()
    for (const { giveUp } of reads) giveUp()
    await Promise.all(reads.map(({ ended }) => ended))
    return isDone
  }

  /** Works like Ctrl-C, repeated until the cell has ended. The kernel keeps its state. */
  interrupt(): void {
    if (this.#stopInterrupting || !this.#onEvent) return
    const strike = () => {
      this.#signal('SIGINT')
      this.#pipe(5)?.write('!')
      // An interrupted bash abandons the whole cell, including its end marker.
      if (this.#kind.protocol === 'bash') this.#ask('', `__warren_end 130 ${this.#marker}\n`)
    }
    strike()
    const timer = setInterval(strike, interruptEveryMs)
    this.#stopInterrupting = () => {
      clearInterval(timer)
      this.#stopInterrupting = undefined
    }
  }

  pauseOutput(): void {
    for (const output of this.#outputs) output.pause()
  }

  resumeOutput(): void {
    for (const output of this.#outputs) output.resume()
  }

  kill(): void {
    this.#signal('SIGKILL')
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#child.pid === undefined || this.#child.exitCode !== null || this.#child.signalCode !== null)
      return
    try {
      process.kill(-this.#child.pid, signal)
    } catch {
      // The process has just ended.
    }
  }

  #ask(request: string, line = ''): void {
    this.#pipe(3)?.write(request)
    if (line !== '') this.#child.stdin!.write(line)
  }

  #pipe(descriptor: number): Writable | null | undefined {
    return (this.#child.stdio as (Writable | null | undefined)[])[descriptor]
  }

  #handle(event: KernelEvent): void {
    if (event.type === 'ready') {
      this.#isReady = true
      this.#ready.resolve()
    } else this.#onEvent?.(event)
  }

  /** Resolves with the first event of these types; undefined if the kernel ends first. */
  #nextEvent(
    types: readonly KernelEvent['type'][],
    onOther: (event: KernelEvent) => void = () => {},
  ): Promise<KernelEvent | undefined> {
    return new Promise((resolve) => {
      if (this.#hasEnded) return resolve(undefined)
      const settle = (event: KernelEvent | undefined) => {
        this.#onEvent = undefined
        this.#onEnd = undefined
        resolve(event)
      }
      this.#onEvent = (event) => (types.includes(event.type) ? settle(event) : onOther(event))
      // Not `ended.then`: a promise keeps everything that was ever added to it, and a kernel outlives
      // thousands of cells.
      this.#onEnd = () => settle(undefined)
    })
  }
}

const notReady = (why: string) => new AppError('unavailable', `The kernel could not be started: ${why}`)
