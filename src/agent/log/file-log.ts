/** Log entries about files: their names and what happened to them, never their contents. */
import type { Filesystem } from '../../contract/rpc/filesystem_pb.ts'
import type { RpcMethods } from '../rpc/rpc.ts'
import type { AgentLog } from './agent-log.ts'

const words = {
  file_read: 'File read',
  file_write: 'File written',
  file_make_dir: 'Folder made',
  file_move: 'Moved',
  file_remove: 'Removed',
}

export function logFile(
  log: AgentLog,
  event: keyof typeof words,
  path: string,
  more: Record<string, string> = {},
): void {
  const to = more.destination === undefined ? '' : ` to ${more.destination}`
  log.add('info', `${words[event]}: ${path}${to}`, { logger: 'files', event_type: event, path, ...more })
}

type Methods = RpcMethods<typeof Filesystem>

/** Wraps the methods that change files, so that each success is logged. */
export function withFileLog(methods: Methods, log: AgentLog): Methods {
  const { makeDir, move, remove } = methods
  return {
    ...methods,
    makeDir: withLog(makeDir, ({ path }) => logFile(log, 'file_make_dir', path)),
    remove: withLog(remove, ({ path }) => logFile(log, 'file_remove', path)),
    move: withLog(move, ({ source, destination }) => logFile(log, 'file_move', source, { destination })),
  }
}

function withLog<Request, Context, Answer>(
  method: (request: Request, context: Context) => Answer | Promise<Answer>,
  logCall: (request: Request) => void,
): (request: Request, context: Context) => Promise<Answer> {
  return async (request, context) => {
    const answer = await method(request, context)
    logCall(request)
    return answer
  }
}
