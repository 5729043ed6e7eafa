/** One process started through the agent: its streams, its readers, and how it ended. */
import type { Readable, Writable } from 'node:stream'
import { AppError, errorText } from '../../lib/app-error.ts'
import { systemErrorCode } from '../errors.ts'
import { endEvent } from './end-event.ts'
import { type ProcessEventInit, Subscription } from './subscription.ts'

export type ProcessConfig = {
  cmd: string
  args: string[]
  envs: Record<string, string>
  cwd?: string | undefined
}

export type Streams = {
  stdin: Writable | undefined
  stdout: Readable
  stderr: Readable
}

const largestChunk = 32 * 1024
/**
 * A process that has ended may have left its output open in the hands of others (`server &`). The end is told
 * after this long at most; what comes later is read and dropped, so that those others are not held up.
 */
const inheritedOutputGraceMs = 1000

export class RunningProcess {
  readonly pid: number
  readonly config: ProcessConfig
  readonly tag: string | undefined
  #stdin: Writable | undefined
  #outputs: Readable[]
  #openOutputs: number
  #subscriptions = new Set<Subscription>()
  #result: { exitCode: number | null; signal: string | null } | undefined
  #end: ProcessEventInit | undefined
  #onEnd: (end: ProcessEventInit) => void

  constructor(
    pid: number,
    config: ProcessConfig,
    tag: string | undefined,
    streams: Streams,
    onEnd: (end: ProcessEventInit) => void,
  ) {
    this.pid = pid
    this.config = config
    this.tag = tag
    this.#onEnd = onEnd
    this.#stdin = streams.stdin
    streams.stdin?.on('error', () => this.closeStdin())
    this.#outputs = [streams.stdout, streams.stderr]
    this.#openOutputs = this.#outputs.length
    this.#read(streams.stdout, 'stdout')
    this.#read(streams.stderr, 'stderr')
  }

  subscribe(): Subscription {
    const subscription = new Subscription(() => this.#adjustFlow())
    this.#subscriptions.add(subscription)
    return subscription
  }

  /** The reader has gone: the process goes on, and its output no longer waits for that reader. */
  unsubscribe(subscription: Subscription): void {
    subscription.close()
    if (this.#subscriptions.delete(subscription)) this.#adjustFlow()
  }

  /** To the whole process group: a shell that dies must not leave the program it runs behind. */
  signal(signal: 'SIGKILL' | 'SIGTERM'): void {
    if (this.#result) return
    try {
      process.kill(-this.pid, signal)
    } catch (error) {
      if (systemErrorCode(error) !== 'ESRCH') throw error
    }
  }

  async writeStdin(bytes: Uint8Array): Promise<void> {
    const stdin = this.#stdin
    if (!stdin?.writable) throw stdinError('stdin not enabled or closed')
    await new Promise<void>((resolve, reject) => {
      stdin.write(bytes, (error) => (error ? reject(stdinError(errorText(error))) : resolve()))
    })
  }

  /** The process reads the end of its input; a second call changes nothing. */
  closeStdin(): void {
    this.#stdin?.end()
    this.#stdin = undefined
  }

  exited(exitCode: number | null, signal: string | null): void {
    this.#result = { exitCode, signal }
    this.#stdin?.destroy()
    this.#stdin = undefined
    if (this.#openOutputs === 0) this.#finish()
    else this.#finishSoon()
  }

  #finishSoon(): void {
    setTimeout(() => {
      if (this.#end) return
      // Full readers, not silent holders of the pipe, are why it has not ended: all of it must arrive.
      if (this.#someReaderIsFull()) this.#finishSoon()
      else this.#finish()
    }, inheritedOutputGraceMs)
  }

  #finish(): void {
    if (this.#end || !this.#result) return
    this.#end = endEvent(this.#result.exitCode, this.#result.signal)
    for (const subscription of this.#subscriptions) subscription.push(this.#end)
    this.#subscriptions.clear()
    for (const output of this.#outputs) output.resume()
    this.#onEnd(this.#end)
  }

  #read(output: Readable, name: 'stdout' | 'stderr'): void {
    output.on('data', (bytes: Buffer) => {
      for (let at = 0; at < bytes.length; at += largestChunk) {
        this.#deliver(name, bytes.subarray(at, at + largestChunk))
      }
    })
    output.on('error', () => {})
    output.on('close', () => {
      this.#openOutputs--
      if (this.#openOutputs === 0) this.#finish()
    })
  }

  #deliver(name: 'stdout' | 'stderr', value: Uint8Array): void {
    if (this.#subscriptions.size === 0) return
    const event: ProcessEventInit = { event: { case: 'data', value: { output: { case: name, value } } } }
    for (const subscription of this.#subscriptions) subscription.push(event)
    this.#adjustFlow()
  }

  #someReaderIsFull(): boolean {
    return [...this.#subscriptions].some((subscription) => subscription.full)
  }

  #adjustFlow(): void {
    const pause = this.#someReaderIsFull()
    for (const output of this.#outputs) {
      if (pause) output.pause()
      else if (output.isPaused()) output.resume()
    }
  }
}

function stdinError(text: string): AppError {
  return new AppError('internal', `error writing to stdin: ${text}`)
}
