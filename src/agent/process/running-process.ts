/** One process started through the agent: its streams, its readers, and its end. */
import { AppError } from '../../lib/app-error.ts'
import { systemErrorCode } from '../errors.ts'
import { isGvisor } from '../listen.ts'
import type { ProcessLog } from '../log/process-log.ts'
import { endEvent } from './end-event.ts'
import { dataEvents, type EventReader, type ProcessEventInit } from './events.ts'
import { InputOrder } from './input-order.ts'
import type { ProcessConfig } from './launch.ts'
import type { TerminalSize } from './native.ts'
import { type OutputName, Outputs } from './outputs.ts'
import { hangUp } from './session.ts'
import { Stdin, stdinError } from './stdin.ts'
import type { Streams } from './streams.ts'
import { Tail, type TailBudget } from './tail.ts'
import { type Terminal, terminalError } from './terminal.ts'

/**
 * A process that ends within this time is reported in one answer; otherwise its start is reported then. Under
 * gVisor `bash -l -c echo` takes 11 to 18 ms, and an answer in two parts takes 1 ms more.
 */
const shortMs = isGvisor() ? 20 : 10
/**
 * The output of a process is read at its end, or by streams, which take more time than a short command
 * itself. A process gets streams if it has written something by the time its start is reported, or if it
 * still runs after this time.
 */
const silentMs = 30
/** Size of the end of each output that is stored for clients that ask after the process has ended. */
const tailBytes = 64 * 1024
/**
 * A process that has ended may have left its output open to others (`server &`). Its end is reported after
 * this time at most; later output is read and dropped, so that those others are not blocked.
 */
const inheritedOutputGraceMs = 1000
/** An exited process left less than this unread: the rest is output of others. */
const maxLeftUnread = 4 * 1024 * 1024

/** A killed process that the kernel still has after this time waits for something that may never come. */
const killWithinMs = 5000

/** What remains of a process: its end event, and the last part of each output. */
export type Remains = { end: ProcessEventInit; tails: { name: OutputName; bytes: Buffer }[] }

export type ProcessOwner = { budget: TailBudget; ended(process: RunningProcess, remains: Remains): void }

export class RunningProcess {
  readonly pid: number
  readonly config: ProcessConfig
  readonly tag: string | undefined
  #stdin: Stdin | undefined
  #terminal: Terminal | undefined
  #outputs: Outputs
  #tails = new Map<OutputName, Tail>()
  #inputOrder = new InputOrder()
  #readers = new Set<EventReader>()
  #result: { exitCode: number | null; signal: string | null } | undefined
  #hasEnded = false
  /** A reader was full at some moment while the process was ending. */
  #wasBlocked = false
  #readSinceExit = 0
  #wasKilled = false
  /** Called when the process has exited. */
  #onExit = new Set<() => void>()
  #opening: NodeJS.Timeout | undefined
  #isReported = false
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
    this.#outputs = new Outputs(
      streams.outputs,
      (name, bytes) => this.#append(name, bytes),
      () => this.#finish(),
    )
    if (this.#outputs.canWait) this.#opening = setTimeout(() => this.#reportStart(), shortMs)
    else this.#openOutputs()
  }

  /** Its start is reported, and no longer held back for its end. */
  get isReported(): boolean {
    return this.#isReported
  }

  subscribe(reader: EventReader): void {
    this.#readers.add(reader)
  }

  /**
   * Removes a reader that has disconnected: the process keeps running, and its output no longer waits for
   * that reader.
   */
  unsubscribe(reader: EventReader): void {
    if (this.#readers.delete(reader)) this.adjustFlow()
  }

  #reportStart(): void {
    if (this.#outputs.areEmpty) this.#opening = setTimeout(() => this.#openOutputs(), silentMs - shortMs)
    else this.#outputs.open()
    this.#isReported = true
    this.#flush()
  }

  #openOutputs(): void {
    this.#isReported = true
    clearTimeout(this.#opening)
    this.#outputs.open()
    this.#flush()
  }

  /** Signals the whole process group: a shell that dies must not leave its program behind. */
  signal(signal: 'SIGKILL' | 'SIGTERM'): void {
    if (this.#result) return
    this.#wasKilled ||= signal === 'SIGKILL'
    send(-this.pid, signal)
  }

  /**
   * Kills the process and resolves once the kernel has let it go: from then on nobody finds its pid. Rejects if
   * that takes too long.
   */
  async kill(): Promise<void> {
    this.signal('SIGKILL')
    if (this.#result) return
    const { promise, resolve } = Promise.withResolvers<'gone' | 'still there'>()
    const gone = () => resolve('gone')
    this.#onExit.add(gone)
    const timer = setTimeout(() => resolve('still there'), killWithinMs)
    const outcome = await promise
    clearTimeout(timer)
    this.#onExit.delete(gone)
    if (outcome === 'still there') throw notGone(this.pid)
  }

  /**
   * Kills the process if it runs longer than this, and calls `onPassed`. If it exited in time and only others
   * delay its end, the end is reported instead.
   */
  limitTo(ms: number, onPassed: () => void): void {
    if (this.#hasEnded) return
    this.#limit = setTimeout(() => {
      if (this.#result && this.endNow()) return
      this.signal('SIGKILL')
      onPassed()
    }, ms)
  }

  writeStdin(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    const stdin = this.#stdin
    if (this.#terminal) throw stdinError('the process has a terminal: send the input as pty')
    if (!stdin) throw stdinError('stdin not enabled or closed')
    // Somebody waits for the process's answer to this input.
    this.#openOutputs()
    return this.#inputOrder.run(signal, () => stdin.write(bytes, signal))
  }

  writeTerminal(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    const terminal = this.#terminal
    if (!terminal) throw terminalError('the process has no terminal: send the input as stdin')
    return this.#inputOrder.run(signal, () => terminal.write(bytes, signal))
  }

  resize(size: TerminalSize): void {
    if (!this.#terminal) throw new AppError('internal', 'error resizing: the process has no terminal')
    this.#terminal.resize(size)
  }

  get hasTerminal(): boolean {
    return this.#terminal !== undefined
  }

  /** Ends the input of the process; a second call changes nothing. */
  closeStdin(): void {
    this.#stdin?.close()
    this.#stdin = undefined
  }

  exited(exitCode: number | null, signal: string | null): void {
    this.#result = { exitCode, signal }
    for (const listener of this.#onExit) listener()
    if (this.#wasKilled) {
      // Sent to the group once more: under gVisor the first signal may have missed a child that was born at that moment.
      send(-this.pid, 'SIGKILL')
      if (this.#terminal && !this.#terminal.hangsUp) hangUp(this.pid)
    }
    this.#stdin?.destroy()
    this.#stdin = undefined
    clearTimeout(this.#opening)
    this.#outputs.drain()
    if (this.#outputs.areClosed) this.#finish()
    else this.#finishSoon()
  }

  /**
   * If the process has exited and only others who hold its output open delay its end, reports the end now.
   */
  endNow(): boolean {
    if (!this.#someReaderIsFull()) this.#finish()
    return this.#hasEnded
  }

  #finishSoon(): void {
    this.#flush()
    this.#wasBlocked = this.#someReaderIsFull()
    setTimeout(() => {
      if (this.#hasEnded) return
      // Full readers, not silent holders of the pipe, may be the reason for the delay: all its output must
      // arrive.
      if (this.#wasBlocked && this.#readSinceExit < maxLeftUnread) this.#finishSoon()
      else this.#finish()
    }, inheritedOutputGraceMs)
  }

  #finish(): void {
    if (this.#hasEnded || !this.#result) return
    this.#hasEnded = true
    clearTimeout(this.#limit)
    this.#log?.ended(this.#result.exitCode, this.#result.signal)
    const end = endEvent(this.#result.exitCode, this.#result.signal)
    for (const reader of this.#readers) reader.push(end)
    this.#readers.clear()
    this.#outputs.resume()
    this.#terminal?.close()
    const tails = [...this.#tails].map(([name, tail]) => ({ name, bytes: tail.seal() }))
    this.#tails.clear()
    this.#owner.ended(this, { end, tails })
  }

  #append(name: OutputName, bytes: Buffer): void {
    if (this.#hasEnded) return
    if (this.#result) this.#readSinceExit += bytes.length
    this.#tailOf(name).append(bytes)
    this.#log?.output(name, bytes)
    if (this.#readers.size === 0) return
    for (const event of dataEvents(name, bytes)) {
      for (const reader of this.#readers) reader.push(event)
    }
    if (!this.#outputs.areStreams) return
    this.#flush()
    this.adjustFlow()
  }

  #tailOf(name: OutputName): Tail {
    const known = this.#tails.get(name) ?? new Tail(tailBytes, this.#owner.budget)
    this.#tails.set(name, known)
    return known
  }

  #flush(): void {
    for (const reader of this.#readers) reader.flush()
  }

  #someReaderIsFull(): boolean {
    for (const reader of this.#readers) if (reader.isFull) return true
    return false
  }

  /** Call it when a reader has space again. */
  adjustFlow(): void {
    if (this.#hasEnded) return
    const isBlocked = this.#someReaderIsFull()
    this.#wasBlocked ||= isBlocked
    if (isBlocked) this.#outputs.pause()
    else this.#outputs.resume()
  }
}

const notGone = (pid: number): AppError =>
  new AppError(
    'internal',
    `process ${pid} was sent SIGKILL, but the kernel has not let it go within ${killWithinMs / 1000} seconds: it waits for a device or a file system, and ends when that answers`,
  )

/** Ignores the failure if the process does not exist any more. */
function send(pid: number, signal: 'SIGKILL' | 'SIGTERM'): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (systemErrorCode(error) !== 'ESRCH') throw error
  }
}
