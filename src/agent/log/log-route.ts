import type { ServerResponse } from 'node:http'
import { AppError } from '../../lib/app-error.ts'
import type { AgentLog } from './agent-log.ts'

const batchBytes = 64 * 1024

/** GET /logs?after=N: every entry after that one, then each as it happens, at the pace of who reads. */
export function streamLog(log: AgentLog, response: ServerResponse, query: URLSearchParams): void {
  let last = Number(query.get('after') ?? 0)
  if (!Number.isSafeInteger(last) || last < 0) {
    throw new AppError('invalid_argument', 'after must be the number of an entry')
  }
  let isFull = false
  let isScheduled = false
  const send = () => {
    isScheduled = false
    while (!isFull && !response.destroyed) {
      const batch = log.readAfter(last, batchBytes)
      if (!batch) return
      last = batch.last
      isFull = !response.write(batch.text)
    }
  }
  const schedule = () => {
    if (isScheduled) return
    isScheduled = true
    // What one turn of the loop brings goes out together.
    setImmediate(send)
  }
  response.on('drain', () => {
    isFull = false
    send()
  })
  response.once('close', log.follow(schedule))
  response.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' })
  response.flushHeaders()
  send()
}
