/** process.Process of the wire: every method, over the table of processes. */
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from '@connectrpc/connect'
import { type Process, type ProcessInput, Signal } from '../../contract/rpc/process_pb.ts'
import { AppError } from '../../lib/app-error.ts'
import type { Identity } from '../identity.ts'
import { Fifos } from './fifos.ts'
import { launch, type Tools } from './launch.ts'
import { type EndedProcess, ProcessTable } from './process-table.ts'
import { RunningProcess } from './running-process.ts'
import type { ProcessEventInit, Subscription } from './subscription.ts'

const defaultKeepaliveSeconds = 90

export type ProcessOptions = {
  /** Told of each process that was started. */
  onStart?: () => void
  /** Where named pipes may be made, best first. */
  pipeFolders?: readonly string[]
}

export class ProcessService {
  readonly table = new ProcessTable()
  readonly fifos: Fifos
  #identity: Identity
  #tools: Tools
  #onStart: () => void

  constructor(identity: Identity, tools: Tools, { onStart = () => {}, pipeFolders }: ProcessOptions = {}) {
    this.#identity = identity
    this.#tools = tools
    this.#onStart = onStart
    this.fifos = new Fifos(tools.mkfifo, pipeFolders)
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
        return 'end' in process ? tellEnd(process) : follow(process, process.subscribe(), context)
      },
      sendInput: async (request) => {
        await writeInput(table.find(request.process), request.input)
        return {}
      },
      streamInput: async (requests) => {
        let process: RunningProcess | undefined
        for await (const { event } of requests) {
          if (event.case === 'start') process = table.find(event.value.process)
          else if (event.case === 'data') await writeInput(process, event.value.input)
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
        table.find(request.process).closeStdin()
        return {}
      },
      update: (request) => {
        table.find(request.process)
        throw new AppError('internal', 'the process has no terminal that could be resized')
      },
    }
  }

  async *#start(
    request: Parameters<ServiceImpl<typeof Process>['start']>[0],
    context: HandlerContext,
  ): AsyncGenerator<{ event: ProcessEventInit }> {
    if (!request.process) throw new AppError('invalid_argument', 'no process given')
    if (request.pty) throw new AppError('internal', 'terminals are not available in this sandbox yet')
    const account = this.#identity.accountOf(context.requestHeader.get('authorization'))
    const { cmd, args, envs, cwd } = request.process
    const config = { cmd, args, envs, ...(cwd !== undefined && { cwd }) }
    const { child, pid, streams } = await launch(config, account, request.stdin ?? true, {
      identity: this.#identity,
      fifos: this.fifos,
      tools: this.#tools,
    })
    const process: RunningProcess = new RunningProcess(pid, config, request.tag, streams, (end) =>
      this.table.end(process, end),
    )
    child.on('exit', (exitCode, signal) => process.exited(exitCode, signal))
    this.table.add(process)
    this.#onStart()
    yield* follow(process, process.subscribe(), context, { killAtDeadline: true })
  }
}

async function writeInput(
  process: RunningProcess | undefined,
  input: ProcessInput | undefined,
): Promise<void> {
  if (!process) throw new AppError('invalid_argument', 'the first frame must select the process')
  const kind = input?.input.case
  if (kind === undefined) throw new AppError('invalid_argument', 'no input given')
  if (kind === 'pty') throw new AppError('internal', 'error writing to pty: the process has no terminal')
  await process.writeStdin(input!.input.value as Uint8Array)
}

async function* tellEnd({ pid, end }: EndedProcess): AsyncGenerator<{ event: ProcessEventInit }> {
  yield { event: startEvent(pid) }
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
  { killAtDeadline = false } = {},
): AsyncGenerator<{ event: ProcessEventInit }> {
  // Not left to `finally`: when the caller has gone, a write that waits for it may never come back to us.
  const leave = () => {
    if (killAtDeadline && isDeadline(context)) process.signal('SIGKILL')
    process.unsubscribe(subscription)
  }
  context.signal.addEventListener('abort', leave)
  if (context.signal.aborted) leave()
  const silenceMs = keepaliveSeconds(context) * 1000
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
  if (isDeadline(context)) {
    throw new AppError('deadline_exceeded', 'the time allowed for this call is over')
  }
}

function isDeadline(context: HandlerContext): boolean {
  return context.signal.reason instanceof ConnectError && context.signal.reason.code === Code.DeadlineExceeded
}

function keepaliveSeconds(context: HandlerContext): number {
  const asked = Number(context.requestHeader.get('keepalive-ping-interval'))
  return Number.isInteger(asked) && asked > 0 && asked < 86_400 ? asked : defaultKeepaliveSeconds
}
