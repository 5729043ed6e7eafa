/**
 * Worker threads that end by themselves, between two messages. A worker that is terminated from outside while it loads the
 * addon for calls of the C library crashes the whole process: the addon fails and can report that to nobody.
 */
import { parentPort, type Worker } from 'node:worker_threads'

/** Different from every other message of any thread. */
const endMessage = 'warren: end this thread'

/** For the module of a worker: receives messages of the main thread until one asks the worker to end. */
export function hearMessages<Message>(hear: (message: Message) => void): void {
  parentPort!.on('message', (message: Message | typeof endMessage) => {
    if (message === endMessage) process.exit()
    hear(message as Message)
  })
}

/** For a worker that uses `hearMessages`: the worker receives all earlier messages before it ends. */
export async function endWorker(worker: Worker): Promise<void> {
  if (worker.threadId === -1) return
  worker.ref()
  const exited = new Promise((resolve) => worker.once('exit', resolve))
  worker.postMessage(endMessage)
  await exited
}
