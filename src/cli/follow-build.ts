/** Follows a build on the server: its log, line by line, until it has ended. */
import type { BuildStatusAnswer } from '../contract/rest/template.ts'
import { delay, systemClock } from '../lib/clock.ts'
import { waitForStart } from '../lib/dockerfile/parse.ts'

const pollEveryMs = 200
const waitLine = `Waiting for template to be ready: ${waitForStart}`
const reportWaitEveryMs = 5000

/** Says how long a build still waits for a start command of which nobody said when it is ready. */
function reportWait(say: (line: string) => void): () => void {
  let leftMs = Number(waitForStart.replace('sleep ', '')) * 1000
  say('Nothing says when the start command is ready, so the build waits. --ready-cmd shortens that.')
  let cancel = () => {}
  const report = () => {
    leftMs -= reportWaitEveryMs
    if (leftMs <= 0) return
    say(`${leftMs / 1000} seconds left.`)
    cancel = systemClock.after(reportWaitEveryMs, report)
  }
  cancel = systemClock.after(reportWaitEveryMs, report)
  return () => cancel()
}

/** Prints every line of the log until the build has ended and there are no more. */
export async function followBuild(
  read: (offset: number) => Promise<BuildStatusAnswer>,
  say: (line: string) => void,
): Promise<BuildStatusAnswer> {
  let offset = 0
  let stopReports = () => {}
  for (;;) {
    const answer = await read(offset)
    offset += answer.logEntries.length
    for (const { level, message } of answer.logEntries) {
      // The error of the command says it.
      if (level === 'error' && message.startsWith('Build failed: ')) continue
      say(message)
      if (message === waitLine) stopReports = reportWait(say)
    }
    const hasEnded = answer.status === 'ready' || answer.status === 'error'
    if (hasEnded) stopReports()
    if (hasEnded && answer.logEntries.length === 0) return answer
    if (!hasEnded) await delay(pollEveryMs)
  }
}
