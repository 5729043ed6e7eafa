/**
 * The thread behind `NamespaceThread`. It runs in a thread because a namespace is entered by a thread, and Node's other
 * threads must stay where they are. Everything it calls is synchronous.
 */
import { parentPort } from 'node:worker_threads'
import { coverFolders } from './cover-folders.ts'
import { mountRoot, mountSlotDisk } from './mount-disks.ts'
import { moveMounts } from './move-mounts.ts'
import type { NamespaceReply, NamespaceRequest, NamespaceTask } from './namespace-thread.ts'
import { makeNetwork } from './slot-network.ts'

function perform(task: NamespaceTask): void {
  if ('cover' in task) coverFolders(task.cover)
  else if ('mountSlotDisk' in task) mountSlotDisk(task.mountSlotDisk)
  else if ('mountRoot' in task) mountRoot(task.mountRoot)
  else if ('moveMounts' in task) moveMounts(task.moveMounts)
  else makeNetwork(task.makeNetwork)
}

parentPort!.on('message', ({ number, task }: NamespaceRequest) => {
  let failure: NamespaceReply['failure']
  try {
    perform(task)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    failure = { code, message }
  }
  parentPort!.postMessage({ number, failure } satisfies NamespaceReply)
})
