/** The thread behind `ProgramThread`. */
import { parentPort } from 'node:worker_threads'
import type { FromProgramThread, ToProgramThread } from './program-thread.ts'
import { spawnProgram } from './spawn-program.ts'

const aborts = new Map<number, AbortController>()

parentPort!.on('message', async (message: ToProgramThread) => {
  const { number } = message
  if ('abort' in message) {
    aborts.get(number)?.abort()
    return
  }
  const abort = new AbortController()
  aborts.set(number, abort)
  const end = await spawnProgram(message.request, abort.signal).catch(({ message: stderr }: Error) => ({
    ...{ exitCode: null, stdout: '', stderr },
  }))
  aborts.delete(number)
  parentPort!.postMessage({ number, end } satisfies FromProgramThread)
})
