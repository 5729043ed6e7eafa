/** One process started through the agent: its streams, its readers, and how it ended. */
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
 * A process that is over within this time is told of in one answer; of what lives longer the start is told then. Under
 * gVisor `bash -l -c echo` takes 11 to 18 ms, of which an answer in two parts takes one more.
 */
const shortMs = isGvisor() ? 20 : 10
/**
 * The output of a process is read at its end, or by streams, which take more time than a short command itself: it gets
 * them when it has written something by the time that its start is told, or is still there after this long.
 */
const silentMs = 30
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
  #stdin: Stdin | undefined
  #terminal: Terminal | undefined
  #outputs: Outputs
  #tails = new Map<OutputName, Tail>()
  #inputOrder = new InputOrder()
  #readers = new Set<EventReader>()
  #result: { exitCode: number | null; signal: string | null } | undefined
  #hasEnded = false
  /** A reader was full, be it for a moment, while the end was waited for. */
  #wasHeldUp = false
  #readSinceExit = 0
  #wasKilled = false
  #opening: NodeJS.Timeout | undefined
  #isTold = false
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
      (name, bytes) => this.#take(name, bytes),
      () => this.#finish(),
    )
    if (this.#outputs.canWait) this.#opening = setTimeout(() => this.#tellStart(), shortMs)
    else this.#openOutputs()
  }

  /** Its start is told, and no longer held back for its end. */
  get isTold(): boolean {
    return this.#isTold
  }

  subscribe(reader: EventReader): void {
    this.#readers.add(reader)
  }

  /** The reader has gone: the process goes on, and its output no longer waits for that reader. */
  unsubscribe(reader: EventReader): void {
    if (this.#readers.delete(reader)) this.adjustFlow()
  }

  #tellStart(): void {
    if (this.#outputs.areEmpty) this.#opening = setTimeout(() => this.#openOutputs(), silentMs - shortMs)
    else this.#outputs.open()
    this.#isTold = true
    this.#flush()
  }

  #openOutputs(): void {
    this.#isTold = true
    clearTimeout(this.#opening)
    this.#outputs.open()
    this.#flush()
  }

  /** To the whole process group: a shell that dies must not leave the program it runs behind. */
  signal(signal: 'SIGKILL' | 'SIGTERM'): void {
    if (this.#result) return
    this.#wasKilled ||= signal === 'SIGKILL'
    send(-this.pid, signal)
  }

  /**
   * It is killed when it runs longer than this, and `onPassed` called. What exited in time did not run out of it: where
   * only others delay its end, that is told.
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
    // Somebody waits for what it says to that.
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
    this.#stdin?.destroy()
    this.#stdin = undefined
    clearTimeout(this.#opening)
    this.#outputs.drain()
    if (this.#outputs.areClosed) this.#finish()
    else this.#finishSoon()
  }

  /** Where it has exited and only others who hold its output open delay the end, that is told now. */
  endNow(): boolean {
    if (!this.#someReaderIsFull()) this.#finish()
    return this.#hasEnded
  }

  #finishSoon(): void {
    this.#flush()
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

  #take(name: OutputName, bytes: Buffer): void {
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

  /** To be called when a reader has space again. */
  adjustFlow(): void {
    if (this.#hasEnded) return
    const isHeldUp = this.#someReaderIsFull()
    this.#wasHeldUp ||= isHeldUp
    if (isHeldUp) this.#outputs.pause()
    else this.#outputs.resume()
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
