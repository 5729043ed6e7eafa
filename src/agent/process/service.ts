/** process.Process of the wire: every method, over the table of processes. */
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from '@connectrpc/connect'
import { type Process, type ProcessInput, type PTY, Signal } from '../../contract/rpc/process_pb.ts'
import { AppError } from '../../lib/app-error.ts'
import type { Identity } from '../identity.ts'
import type { AgentLog } from '../log/agent-log.ts'
import { logFailedStart, ProcessLog } from '../log/process-log.ts'
import { deadlineExceeded, isDeadline, keepaliveMs } from '../stream-context.ts'
import { type Launched, type LaunchRequest, launch } from './launch.ts'
import { loadNative, type Native, type TerminalSize } from './native.ts'
import { type EndedProcess, ProcessTable } from './process-table.ts'
import { dataEvents, RunningProcess } from './running-process.ts'
import type { ProcessEventInit, Subscription } from './subscription.ts'
import { untilAborted } from './until-aborted.ts'

const noStdinToClose =
  'error closing stdin: cannot close stdin for PTY process, send Ctrl+D (0x04) as pty input instead'

export type ProcessOptions = {
  /** Told of each process that was started. */
  onStart?: () => void
  log?: AgentLog | undefined
}

export class ProcessService {
  readonly table = new ProcessTable()
  #identity: Identity
  #addon: string
  #native: Native | undefined
  #onStart: () => void
  #log: AgentLog | undefined

  constructor(identity: Identity, addon: string, { onStart = () => {}, log }: ProcessOptions = {}) {
    this.#log = log
    this.#identity = identity
    this.#addon = addon
    this.#onStart = onStart
  }

  /** Gets ready for a first process what takes a while to load. */
  warmUp(): void {
    try {
      this.#loadNative()
    } catch {}
  }

  #loadNative(): Native {
    this.#native ??= loadNative(this.#addon)
    return this.#native
  }

  routes(): Partial<ServiceImpl<typeof Process>> {
    const table = this.table
    return {
      list: () => ({
        processes: table
          .running()
          .map(({ config, pid, tag }) => ({ config, pid, ...(tag !== undefined && { tag }) })),
      }),
      start: (request, context) => this.#start(request, context),
      connect: (request, context) => {
        const process = table.findOrEnded(request.process)
        return 'end' in process ? tellRemains(process) : follow(process, process.subscribe(), context)
      },
      sendInput: async (request, context) => {
        await writeInput(table.find(request.process), request.input, context)
        return {}
      },
      streamInput: async (requests, context) => {
        let process: RunningProcess | undefined
        for await (const { event } of whileAllowed(requests, context.signal)) {
          if (event.case === 'start') process = table.find(event.value.process)
          else if (event.case === 'data') await writeInput(process, event.value.input, context)
        }
        return {}
      },
      sendSignal: (request) => {
        const process = table.find(request.process)
        if (request.signal === Signal.SIGKILL) process.signal('SIGKILL')
        else if (request.signal === Signal.SIGTERM) process.signal('SIGTERM')
        else throw new ConnectError(`signal ${request.signal} is not supported`, Code.Unimplemented)
        return {}
      },
      closeStdin: (request) => {
        const process = table.find(request.process)
        if (process.hasTerminal) throw new ConnectError(noStdinToClose, Code.Unknown)
        process.closeStdin()
        return {}
      },
      update: (request) => {
        const process = table.find(request.process)
        if (request.pty) process.resize(sizeOf(request.pty))
        return {}
      },
    }
  }

  async *#start(
    request: Parameters<ServiceImpl<typeof Process>['start']>[0],
    context: HandlerContext,
  ): AsyncGenerator<{ event: ProcessEventInit }> {
    if (!request.process) throw new AppError('invalid_argument', 'no process given')
    const account = this.#identity.accountOf(context.requestHeader.get('authorization'))
    const { cmd, args, envs, cwd } = request.process
    const config = { cmd, args, envs, ...(cwd !== undefined && { cwd }) }
    const terminal = request.pty && sizeOf(request.pty)
    const native = this.#loadNative()
    const { pid, streams, workdir } = this.#launch(
      { config, account, wantsStdin: request.stdin ?? true, terminal },
      native,
    )
    const started = { cmd, args, user: account.name, pid, cwd: workdir, tag: request.tag }
    const log = this.#log && new ProcessLog(this.#log, started)
    const process = new RunningProcess(pid, config, request.tag, streams, this.table, log)
    native.awaitExit(pid, (exitCode, signal) => process.exited(exitCode, signal))
    this.table.add(process)
    this.#onStart()
    // Holds also when the client has gone before: it may have lost patience a moment earlier than we.
    const limitMs = context.timeoutMs()
    if (limitMs !== undefined) process.limitTo(limitMs)
    for await (const item of follow(process, process.subscribe(), context)) {
      // The process may be dead of the limit a moment before the call itself runs out of time.
      if (process.outOfTime && item.event.event?.case === 'end') throw deadlineExceeded()
      yield item
    }
  }

  #launch(request: LaunchRequest, native: Native): Launched {
    try {
      return launch(request, this.#identity, native)
    } catch (error) {
      const { config, account } = request
      if (this.#log) logFailedStart(this.#log, { ...config, user: account.name }, error)
      throw error
    }
  }
}

/** A size that was left out is the one terminals always had. */
function sizeOf({ size }: PTY): TerminalSize {
  return { cols: size?.cols || 80, rows: size?.rows || 24 }
}

async function writeInput(
  process: RunningProcess | undefined,
  input: ProcessInput | undefined,
  { signal }: HandlerContext,
): Promise<void> {
  if (!process) throw new AppError('invalid_argument', 'the first frame must select the process')
  const given = input?.input
  if (given?.case === 'stdin') await process.writeStdin(given.value, signal)
  else if (given?.case === 'pty') await process.writeTerminal(given.value, signal)
  else throw new AppError('invalid_argument', 'no input given')
}

/** A client that falls silent must not outlast the time it asked for. */
async function* whileAllowed<T>(items: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const iterator = items[Symbol.asyncIterator]()
  for (;;) {
    const { value, done } = await untilAborted(iterator.next(), signal)
    if (done) return
    yield value
  }
}

async function* tellRemains({ pid, end, tails }: EndedProcess): AsyncGenerator<{ event: ProcessEventInit }> {
  yield { event: startEvent(pid) }
  for (const { name, bytes } of tails) {
    for (const event of dataEvents(name, bytes)) yield { event }
  }
  yield { event: end }
}

function startEvent(pid: number): ProcessEventInit {
  return { event: { case: 'start', value: { pid } } }
}

/** The events of a process for one caller, from the start event to the end of the process or of the call. */
async function* follow(
  process: RunningProcess,
  subscription: Subscription,
  context: HandlerContext,
): AsyncGenerator<{ event: ProcessEventInit }> {
  // Not left to `finally`: when the caller has gone, a write that waits for it may never come back to us.
  const leave = () => {
    // What exited in time did not run out of it.
    if (isDeadline(context) && process.endNow()) return
    process.unsubscribe(subscription)
  }
  context.signal.addEventListener('abort', leave)
  if (context.signal.aborted) leave()
  const silenceMs = keepaliveMs(context)
  try {
    yield { event: startEvent(process.pid) }
    for (;;) {
      const event = await subscription.next(silenceMs)
      if (event === undefined) break
      yield { event: event === 'silence' ? { event: { case: 'keepalive', value: {} } } : event }
      if (event !== 'silence' && event.event?.case === 'end') return
    }
  } finally {
    context.signal.removeEventListener('abort', leave)
    process.unsubscribe(subscription)
  }
  if (isDeadline(context)) throw deadlineExceeded()
}
