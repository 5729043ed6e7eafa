/**
 * The thread behind `NamespaceThread`. It runs in a thread because a namespace is entered by a thread, and Node's other
 * threads must stay where they are. Everything it calls is synchronous.
 */
import { parentPort } from 'node:worker_threads'
import { hearMessages } from '../../../lib/ending-worker.ts'
import { coverFolders } from './cover-folders.ts'
import { makeSlotDisk, mountImages, mountRoot } from './mount-disks.ts'
import { moveMounts } from './move-mounts.ts'
import type { NamespaceReply, NamespaceRequest, NamespaceTask } from './namespace-thread.ts'
import { makeNetwork } from './slot-network.ts'
import { startRuntime } from './start-runtime.ts'

/** Gives the pid of a process that was started. */
function perform(task: NamespaceTask): number | undefined {
  if ('startRuntime' in task) return startRuntime(task.startRuntime)
  if ('cover' in task) coverFolders(task.cover)
  else if ('makeSlotDisk' in task) makeSlotDisk(task.makeSlotDisk)
  else if ('mountImages' in task) mountImages(task.mountImages)
  else if ('mountRoot' in task) mountRoot(task.mountRoot)
  else if ('moveMounts' in task) moveMounts(task.moveMounts)
  else makeNetwork(task.makeNetwork)
  return undefined
}

hearMessages(({ number, task }: NamespaceRequest) => {
  let pid: number | undefined
  let failure: NamespaceReply['failure']
  try {
    pid = perform(task)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    failure = { code, message }
  }
  parentPort!.postMessage({ number, pid, failure } satisfies NamespaceReply)
})
