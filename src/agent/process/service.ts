/** The wire's process.Process: all methods, over the table of processes. */

import type { Process, ProcessInput, PTY, StartRequest } from '../../contract/rpc/process_pb.ts'
import { Signal } from '../../contract/rpc/process-fields.ts'
import { AppError } from '../../lib/app-error.ts'
import { untilAborted } from '../../lib/until-aborted.ts'
import type { Identity } from '../identity.ts'
import type { AgentLog } from '../log/agent-log.ts'
import { isLogged, logFailedStart, ProcessLog } from '../log/process-log.ts'
import type { RpcMethods } from '../rpc/rpc.ts'
import { deadlineExceeded, type RpcCall } from '../rpc/rpc-call.ts'
import { RpcError } from '../rpc/rpc-error.ts'
import { dataEvents, startEvent } from './events.ts'
import { type Launched, type LaunchRequest, launch } from './launch.ts'
import { loadNative, type Native, type TerminalSize } from './native.ts'
import { type EventAnswer, ProcessFollower } from './process-follower.ts'
import { type EndedProcess, ProcessTable } from './process-table.ts'
import { RunningProcess } from './running-process.ts'

const noStdinToClose =
  'error closing stdin: cannot close stdin for PTY process, send Ctrl+D (0x04) as pty input instead'

export type ProcessOptions = {
  /** Called for each started process. */
  onStart?: () => void
  log?: AgentLog | undefined
}

/** Start and Connect give the same answers. */
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

  /** Loads what takes a while and a first process needs. */
  warmUp(): void {
    try {
      this.#loadNative()
    } catch {}
  }

  #loadNative(): Native {
    this.#native ??= loadNative(this.#addon)
    return this.#native
  }

  methods(): RpcMethods<typeof Process> {
    const table = this.table
    return {
      list: () => ({
        processes: table
          .running()
          .map(({ config, pid, tag }) => ({ config, pid, ...(tag !== undefined && { tag }) })),
      }),
      start: (request, call, answer) => this.#start(request, call, answer),
      connect: (request, call, answer) => {
        const process = table.findOrEnded(request.process)
        if ('end' in process) sendRemains(process, answer)
        else new ProcessFollower(process, answer, call.keepaliveMs).followWithin(call)
      },
      sendInput: async (request, call) => {
        await writeInput(table.find(request.process), request.input, call)
        return {}
      },
      streamInput: async (requests, call) => {
        let process: RunningProcess | undefined
        for await (const { event } of whileAllowed(requests, call.signal)) {
          if (event.case === 'start') process = table.find(event.value.process)
          else if (event.case === 'data') await writeInput(process, event.value.input, call)
        }
        return {}
      },
      sendSignal: async (request) => {
        const process = table.find(request.process)
        if (request.signal === Signal.SIGKILL) await process.kill()
        else if (request.signal === Signal.SIGTERM) process.signal('SIGTERM')
        else throw new RpcError('unimplemented', `signal ${request.signal} is not supported`)
        return {}
      },
      closeStdin: (request) => {
        const process = table.find(request.process)
        if (process.hasTerminal) throw new RpcError('unknown', noStdinToClose)
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

  #start(request: StartRequest, call: RpcCall, answer: EventAnswer): void {
    if (!request.process) throw new AppError('invalid_argument', 'no process given')
    const account = this.#identity.accountOf(call.headers.authorization)
    const { cmd, args, envs, cwd } = request.process
    const config = { cmd, args, envs, ...(cwd !== undefined && { cwd }) }
    const terminal = request.pty && sizeOf(request.pty)
    const native = this.#loadNative()
    const { pid, streams, workdir } = this.#launch(
      { config, account, wantsStdin: request.stdin ?? true, terminal },
      native,
    )
    const started = { cmd, args, user: account.name, pid, cwd: workdir, tag: request.tag }
    const log = this.#log && isLogged(envs) ? new ProcessLog(this.#log, started) : undefined
    const process = new RunningProcess(pid, config, request.tag, streams, this.table, log)
    native.awaitExit(pid, (exitCode, signal) => process.exited(exitCode, signal))
    this.table.add(process)
    this.#onStart()
    const follower = new ProcessFollower(process, answer, call.keepaliveMs)
    // Also applies if the client has disconnected: it may have lost patience a moment earlier than the agent.
    const limitMs = call.remainingMs()
    if (limitMs !== undefined) process.limitTo(limitMs, () => follower.end(deadlineExceeded()))
    call.onGone(() => follower.leave())
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

/** The default is the traditional size of terminals. */
function sizeOf({ size }: PTY): TerminalSize {
  return { cols: size?.cols || 80, rows: size?.rows || 24 }
}

async function writeInput(
  process: RunningProcess | undefined,
  input: ProcessInput | undefined,
  { signal }: RpcCall,
): Promise<void> {
  if (!process) throw new AppError('invalid_argument', 'the first frame must select the process')
  const given = input?.input
  if (given?.case === 'stdin') await process.writeStdin(given.value, signal)
  else if (given?.case === 'pty') await process.writeTerminal(given.value, signal)
  else throw new AppError('invalid_argument', 'no input given')
}

/** A client that falls silent must not outlast its own timeout. */
async function* whileAllowed<T>(items: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const iterator = items[Symbol.asyncIterator]()
  for (;;) {
    const { value, done } = await untilAborted(iterator.next(), signal)
    if (done) return
    yield value
  }
}

function sendRemains({ pid, end, tails }: EndedProcess, answer: EventAnswer): void {
  const data = tails.flatMap(({ name, bytes }) => dataEvents(name, bytes))
  for (const event of [startEvent(pid), ...data, end]) answer.send({ event })
  answer.end()
}
