/**
 * The thread behind `NamespaceThread`. A separate thread, because a thread enters a namespace, and Node's
 * other threads must stay where they are. Everything it calls is synchronous.
 */
import { parentPort } from 'node:worker_threads'
import { hearMessages } from '../../../lib/ending-worker.ts'
import { coverFolders } from './cover-folders.ts'
import { type FlowTable, openFlowTable } from './flow-table.ts'
import { makeSlotDisk, mountImages, mountRoot } from './mount-disks.ts'
import { checkMountPoints, type MountPointsTask } from './mount-points.ts'
import { moveMounts } from './move-mounts.ts'
import { inNamespace } from './namespace-calls.ts'
import type { NamespaceReply, NamespaceRequest, NamespaceTask } from './namespace-thread.ts'
import { makeNetwork, narrowLinks } from './slot-network.ts'
import { makeUsers } from './slot-users.ts'
import { startRuntime } from './start-runtime.ts'

let openedFlows: FlowTable | undefined

function flows(): FlowTable {
  openedFlows ??= openFlowTable()
  return openedFlows
}

function perform(task: NamespaceTask): NamespaceReply['given'] {
  if ('startRuntime' in task) return [startRuntime(task.startRuntime)]
  if ('makeUsers' in task) return makeUsers(task.makeUsers)
  if ('cover' in task) coverFolders(task.cover)
  else if ('makeSlotDisk' in task) makeSlotDisk(task.makeSlotDisk)
  else if ('mountImages' in task) mountImages(task.mountImages)
  else if ('mountRoot' in task) mountRoot(task.mountRoot)
  else if ('checkMountPoints' in task) checkInNamespace(task.checkMountPoints)
  else if ('moveMounts' in task) moveMounts(task.moveMounts)
  else if ('forgetFlows' in task) flows().forget(task.forgetFlows)
  else if ('narrowLinks' in task) narrowLinks(task.narrowLinks)
  else makeNetwork(task.makeNetwork)
  return []
}

function checkInNamespace(task: MountPointsTask): void {
  inNamespace('mounts', task.namespace, () => checkMountPoints(task))
}

hearMessages(({ number, task }: NamespaceRequest) => {
  let given: NamespaceReply['given'] = []
  let failure: NamespaceReply['failure']
  try {
    given = perform(task)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    failure = { code, message }
  }
  parentPort!.postMessage({ number, given, failure } satisfies NamespaceReply)
})
