/**
 * The second thread of the JavaScript kernel, which listens while a cell keeps the first one busy. An
 * interrupt asks the first thread to end the cell and, if that does not answer, makes V8 stop it. Requests
 * come this way too: V8 stops everything down to the callback that started a cell, and a message leaves
 * nothing half-done.
 */
import { Session } from 'node:inspector'
import { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { parentPort, Worker, workerData } from 'node:worker_threads'

const requestDescriptor = 3
const controlDescriptor = 5
const answersWithinMs = 100

type Heard = { request: string } | { interrupt: true }

/** Runs on the thread of the cells. */
export function startListener(onRequest: (line: string) => void, onInterrupt: () => void): void {
  const answered = new Int32Array(new SharedArrayBuffer(4))
  const thread = new Worker(process.argv[1]!, { workerData: answered })
  thread.on('message', (heard: Heard) => {
    if ('request' in heard) return onRequest(heard.request)
    Atomics.store(answered, 0, 1)
    onInterrupt()
  })
}

/** Runs on the second thread: each line is a request, and every piece from the control pipe an interrupt. */
export function listen(): void {
  const answered = workerData as Int32Array
  const send = (heard: Heard) => parentPort!.postMessage(heard)
  const session = new Session()
  session.connectToMainThread()
  const from = (fd: number) => new Socket({ fd, readable: true, writable: false })
  const lines = createInterface({ input: from(requestDescriptor) })
  lines.on('line', (request) => send({ request }))
  lines.on('close', () => process.kill(process.pid, 'SIGKILL'))
  from(controlDescriptor).on('data', async () => {
    Atomics.store(answered, 0, 0)
    send({ interrupt: true })
    await setTimeout(answersWithinMs)
    if (Atomics.load(answered, 0) === 0) session.post('Runtime.terminateExecution')
  })
}
