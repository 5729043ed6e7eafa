/** The thread behind `ProgramThread`. */
import { parentPort } from 'node:worker_threads'
import { hearMessages } from './ending-worker.ts'
import type { FromProgramThread, ProgramQuestion, ToProgramThread } from './program-thread.ts'
import { spawnProgram } from './spawn-program.ts'

/** By the number of the question that started them. */
const running = new Map<number, AbortController>()

hearMessages(async ({ number, question }: ToProgramThread) => {
  const reply = await answer(number, question).then(
    (answer) => ({ number, answer }),
    ({ message }: Error) => ({ number, answer: undefined, failure: message }),
  )
  parentPort!.postMessage(reply satisfies FromProgramThread)
})

async function answer(number: number, question: ProgramQuestion): Promise<unknown> {
  if ('abort' in question) return running.get(question.abort)?.abort()
  const abort = new AbortController()
  running.set(number, abort)
  return spawnProgram(question.run, abort.signal).finally(() => running.delete(number))
}
