/** One process started through the agent: its streams, its readers, and how it ended. */
import { AppError } from '../../lib/app-error.ts'
import { noteSpent } from '../../lib/spent-buffers.ts'
import { systemErrorCode } from '../errors.ts'
import type { ProcessLog } from '../log/process-log.ts'
import { endEvent } from './end-event.ts'
import type { ProcessConfig } from './launch.ts'
import type { TerminalSize } from './native.ts'
import { hangUp } from './session.ts'
import { Stdin, stdinError } from './stdin.ts'
import type { Output, OutputName, Streams } from './streams.ts'
import { type ProcessEventInit, Subscription } from './subscription.ts'
import { Tail, type TailBudget } from './tail.ts'
import { type Terminal, terminalError } from './terminal.ts'
import { Turns } from './until-aborted.ts'

const largestChunk: Record<OutputName, number> = { stdout: 32 * 1024, stderr: 32 * 1024, pty: 16 * 1024 }
/** So much of the end of each output is kept for clients that ask after the process has ended. */
const tailBytes = 64 * 1024
/**
 * A process that has ended may have left its output open in the hands of others (`server &`). The end is told
 * after this long at most; what comes later is read and dropped, so that those others are not held up.
 */
const inheritedOutputGraceMs = 1000
/** A process that has exited left less than this unread: what comes after is not its own. */
const mostLeftUnread = 4 * 1024 * 1024

/** What is left of a process: its end, and of each output the last part. */
export type Remains = { end: ProcessEventInit; tails: { name: OutputName; bytes: Buffer }[] }

export type ProcessOwner = { budget: TailBudget; ended(process: RunningProcess, remains: Remains): void }

export class RunningProcess {
  readonly pid: number
  readonly config: ProcessConfig
  readonly tag: string | undefined
  /** It was killed because it ran longer than its limit. */
  outOfTime = false
  #stdin: Stdin | undefined
  #terminal: Terminal | undefined
  #outputs: Output[]
  #tails = new Map<OutputName, Tail>()
  #openOutputs: number
  #inputTurns = new Turns()
  #subscriptions = new Set<Subscription>()
  #result: { exitCode: number | null; signal: string | null } | undefined
  #hasEnded = false
  /** A reader was full, be it for a moment, while the end was waited for. */
  #wasHeldUp = false
  #readSinceExit = 0
  #wasKilled = false
  #limit: NodeJS.Timeout | undefined
  #owner: ProcessOwner
  #log: ProcessLog | undefined

  constructor(
    pid: number,
    config: ProcessConfig,
    tag: string | undefined,
    streams: Streams,
    owner: ProcessOwner,
    log?: ProcessLog,
  ) {
    this.pid = pid
    this.config = config
    this.tag = tag
    this.#owner = owner
    this.#log = log
    this.#stdin = streams.stdin && new Stdin(streams.stdin)
    this.#terminal = streams.terminal
    this.#outputs = streams.outputs
    this.#openOutputs = this.#outputs.length
    for (const output of this.#outputs) this.#read(output)
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
    this.#wasKilled ||= signal === 'SIGKILL'
    send(-this.pid, signal)
  }

  /** It is killed when it runs longer than this. */
  limitTo(ms: number): void {
    if (this.#result) return
    const kill = () => {
      this.outOfTime = true
      this.signal('SIGKILL')
    }
    this.#limit = setTimeout(kill, Math.max(ms, 0))
  }

  writeStdin(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    const stdin = this.#stdin
    if (this.#terminal) throw stdinError('the process has a terminal: send the input as pty')
    if (!stdin) throw stdinError('stdin not enabled or closed')
    return this.#inputTurns.run(signal, () => stdin.write(bytes, signal))
  }

  writeTerminal(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    const terminal = this.#terminal
    if (!terminal) throw terminalError('the process has no terminal: send the input as stdin')
    return this.#inputTurns.run(signal, () => terminal.write(bytes, signal))
  }

  resize(size: TerminalSize): void {
    if (!this.#terminal) throw new AppError('internal', 'error resizing: the process has no terminal')
    this.#terminal.resize(size)
  }

  get hasTerminal(): boolean {
    return this.#terminal !== undefined
  }

  /** The process reads the end of its input; a second call changes nothing. */
  closeStdin(): void {
    this.#stdin?.close()
    this.#stdin = undefined
  }

  exited(exitCode: number | null, signal: string | null): void {
    this.#result = { exitCode, signal }
    if (this.#wasKilled) {
      // gVisor may miss a child that was born just then.
      send(-this.pid, 'SIGKILL')
      if (this.#terminal && !this.#terminal.hangsUp) hangUp(this.pid)
    }
    clearTimeout(this.#limit)
    this.#stdin?.destroy()
    this.#stdin = undefined
    if (this.#openOutputs === 0) this.#finish()
    else this.#finishSoon()
  }

  /** Where it has exited and only others who hold its output open delay the end, that is told now. */
  endNow(): boolean {
    if (!this.#someReaderIsFull()) this.#finish()
    return this.#hasEnded
  }

  #finishSoon(): void {
    this.#wasHeldUp = this.#someReaderIsFull()
    setTimeout(() => {
      if (this.#hasEnded) return
      // Full readers, not silent holders of the pipe, may be why it has not ended: all that it wrote must arrive.
      if (this.#wasHeldUp && this.#readSinceExit < mostLeftUnread) this.#finishSoon()
      else this.#finish()
    }, inheritedOutputGraceMs)
  }

  #finish(): void {
    if (this.#hasEnded || !this.#result) return
    this.#hasEnded = true
    this.#log?.ended(this.#result.exitCode, this.#result.signal)
    const end = endEvent(this.#result.exitCode, this.#result.signal)
    for (const subscription of this.#subscriptions) subscription.push(end)
    this.#subscriptions.clear()
    for (const { stream } of this.#outputs) stream.resume()
    this.#terminal?.close()
    const tails = [...this.#tails].map(([name, tail]) => ({ name, bytes: tail.seal() }))
    this.#tails.clear()
    this.#owner.ended(this, { end, tails })
  }

  #read({ name, stream }: Output): void {
    const tail = new Tail(tailBytes, this.#owner.budget)
    this.#tails.set(name, tail)
    stream.on('data', (bytes: Buffer) => {
      noteSpent(bytes.length)
      if (this.#hasEnded) return
      if (this.#result) this.#readSinceExit += bytes.length
      tail.append(bytes)
      this.#log?.output(name, bytes)
      for (const event of dataEvents(name, bytes)) this.#deliver(event)
    })
    stream.on('error', () => {})
    stream.on('close', () => {
      this.#openOutputs--
      if (this.#openOutputs === 0) this.#finish()
    })
  }

  #deliver(event: ProcessEventInit): void {
    if (this.#subscriptions.size === 0) return
    for (const subscription of this.#subscriptions) subscription.push(event)
    this.#adjustFlow()
  }

  #someReaderIsFull(): boolean {
    return [...this.#subscriptions].some((subscription) => subscription.full)
  }

  #adjustFlow(): void {
    const pause = this.#someReaderIsFull()
    this.#wasHeldUp ||= pause
    for (const { stream } of this.#outputs) {
      if (pause) stream.pause()
      else if (stream.isPaused()) stream.resume()
    }
  }
}

/** Output as events, none of them larger than clients expect. */
export function* dataEvents(name: OutputName, bytes: Uint8Array): Generator<ProcessEventInit> {
  const step = largestChunk[name]
  for (let at = 0; at < bytes.length; at += step) {
    const value = bytes.subarray(at, at + step)
    yield { event: { case: 'data', value: { output: { case: name, value } } } }
  }
}

/** That nobody is left to send it to is no failure. */
function send(pid: number, signal: 'SIGKILL' | 'SIGTERM'): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (systemErrorCode(error) !== 'ESRCH') throw error
  }
}
