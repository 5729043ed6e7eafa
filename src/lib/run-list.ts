/**
 * Runs system calls that may take long in a separate process. It shares our memory, executes no program and has none of our
 * files open. If this process is killed, it still goes on to the end of its list.
 */
import { awaitChild } from './await-child.ts'
import { openCLibrary } from './c-library.ts'
import type { CallList } from './call-list.ts'
import { addCloseFrom, type CloneByList, openListClone, systemError } from './list-process.ts'
import { requireAddonFile } from './native.ts'
import { atUsualPriority } from './priority.ts'

let start: CloneByList | undefined

/**
 * Call it in the main thread, like `awaitChild`. Rejects with the failure of the first call that must not fail. `dataBytes`
 * is the size of the data that the calls point at.
 */
export async function runList(dataBytes: number, addCalls: (list: CallList) => void): Promise<void> {
  start ??= openListClone(openCLibrary(requireAddonFile('System calls cannot be run')), (list) =>
    addCloseFrom(list, 0),
  )
  const { pid, list } = atUsualPriority(() =>
    start!(dataBytes, (list) => {
      addCalls(list)
      list.add('exit', 0)
    }),
  )
  try {
    const exitCode = await awaitChild(pid)
    if (exitCode === 0) return
    const failure = list.failure()
    throw failure ? systemError(failure) : new Error('A signal ended the process that ran system calls.')
  } finally {
    list.release()
  }
}
