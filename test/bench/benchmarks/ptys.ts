/** Many terminals at once in one sandbox: each is there when its shell has answered a typed line. */
import { Sandbox } from 'e2b'
import { withDeadline } from '../../../src/lib/deadline.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { warrenName } from '../contenders/warren.ts'
import { type Row, rowName, timed } from '../measure.ts'
import type { Report } from '../report.ts'

const atOnce = 50
const answerWithinMs = 60_000
// What comes back is not what was typed, so that the echo of the terminal does not count as an answer.
const typed = new TextEncoder().encode('echo answer-$((6*7))\n')
const answer = 'answer-42'

export async function ptys(machine: BenchMachine): Promise<Report> {
  const rows: Row[] = []
  for (const isolation of machine.isolations) {
    machine.signal.throwIfAborted()
    const warren = await machine.warren(isolation)
    const box = await Sandbox.create('base', { ...warren.client, timeoutMs: 600_000 })
    try {
      const name = warrenName(warren)
      await open(box)
      const failures: string[] = []
      const [whole, each] = await timed(async () => {
        const tries = await Promise.allSettled(Array.from({ length: atOnce }, () => open(box)))
        for (const one of tries) if (one.status === 'rejected') failures.push(String(one.reason))
        return tries.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
      })
      rows.push({ name: rowName(name, 'each'), unit: 'ms', samples: each, failures })
      rows.push({ name: rowName(name, 'all'), unit: 'ms', samples: [whole], failures: [] })
    } finally {
      await box.kill()
    }
  }
  return { title: `Terminals: ${atOnce} at once, until each has answered a line`, rows }
}

/** The terminal stays open until the sandbox ends. */
async function open(box: Sandbox): Promise<number> {
  const decoder = new TextDecoder()
  let seen = ''
  const answered = Promise.withResolvers<void>()
  const onData = (data: Uint8Array) => {
    seen += decoder.decode(data, { stream: true })
    if (seen.includes(answer)) answered.resolve()
  }
  const [ms] = await timed(async () => {
    const pty = await box.pty.create({ cols: 80, rows: 24, onData, timeoutMs: 0 })
    await box.pty.sendInput(pty.pid, typed)
    const silent = `a terminal said only ${JSON.stringify(seen.slice(-200))}`
    await withDeadline(answerWithinMs, silent, () => answered.promise)
  })
  return ms
}
