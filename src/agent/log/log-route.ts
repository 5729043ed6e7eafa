import type { ServerResponse } from 'node:http'
import { AppError } from '../../lib/app-error.ts'
import type { AgentLog } from './agent-log.ts'

const batchBytes = 64 * 1024
const longestWaitMs = 20

/**
 * GET /logs?after=N: sends every entry after that one, then new entries as they happen, at the reader's pace.
 */
export function streamLog(log: AgentLog, response: ServerResponse, query: URLSearchParams): void {
  let last = Number(query.get('after') ?? 0)
  if (!Number.isSafeInteger(last) || last < 0) {
    throw new AppError('invalid_argument', 'after must be the number of an entry')
  }
  let isFull = false
  let timer: NodeJS.Timeout | undefined
  const cancel = () => {
    clearTimeout(timer)
    timer = undefined
  }
  const send = () => {
    cancel()
    while (!isFull && !response.destroyed) {
      const batch = log.readAfter(last, batchBytes)
      if (!batch) break
      last = batch.last
      isFull = !response.write(batch.text)
    }
    // Sent before any answer: a client that reads the end of a command may end the sandbox next.
    response.socket?.uncork()
  }
  const unfollow = log.follow((canWait) => {
    if (canWait) timer ??= setTimeout(send, longestWaitMs)
    else send()
  })
  response.on('drain', () => {
    isFull = false
    send()
  })
  response.once('close', () => {
    unfollow()
    cancel()
  })
  // The body ends with the connection: without chunks each batch is one piece of the socket's, not four.
  response.removeHeader('transfer-encoding')
  response.writeHead(200, {
    'content-type': 'application/x-ndjson',
    'cache-control': 'no-store',
    connection: 'close',
  })
  response.flushHeaders()
  send()
}
