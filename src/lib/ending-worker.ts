/**
 * Worker threads that end by themselves, between two messages. One that is terminated from outside while it loads the
 * addon for calls of the C library takes the whole process with it: the addon fails, and has no way left to say so.
 */
import { parentPort, type Worker } from 'node:worker_threads'

/** No message of any thread looks like it. */
const endMessage = 'warren: end this thread'

/** For the module of a worker: hears what the main thread sends until that asks the worker to end. */
export function hearMessages<Message>(hear: (message: Message) => void): void {
  parentPort!.on('message', (message: Message | typeof endMessage) => {
    if (message === endMessage) process.exit()
    hear(message as Message)
  })
}

/** For a worker that hears by `hearMessages`: it hears all that was sent to it before it ends. */
export async function endWorker(worker: Worker): Promise<void> {
  if (worker.threadId === -1) return
  worker.ref()
  const exited = new Promise((resolve) => worker.once('exit', resolve))
  worker.postMessage(endMessage)
  await exited
}
