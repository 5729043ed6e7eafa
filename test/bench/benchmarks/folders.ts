/** Listing a large folder through the client. */
import { Sandbox } from 'e2b'
import type { BenchMachine } from '../bench-machine.ts'
import { warrenName } from '../contenders/warren.ts'
import { type Contender, takeTurns, timed } from '../measure.ts'
import type { Report } from '../report.ts'

const entryCount = 10_000

export async function folders(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const boxes: Sandbox[] = []
  const contenders: Contender[] = []
  try {
    for (const isolation of machine.isolations) {
      const warren = await machine.warren(isolation)
      const box = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      boxes.push(box)
      await box.commands.run(`mkdir many && cd many && seq -f 'file-%g' ${entryCount} | xargs touch`)
      contenders.push(lists(warrenName(warren), box))
    }
    const rows = await takeTurns(contenders, { rounds, signal: machine.signal })
    return { title: `Folders: ${entryCount} entries`, rows }
  } finally {
    await Promise.all(boxes.map((box) => box.kill()))
  }
}

/** The second step is what a person would otherwise do. */
function lists(name: string, box: Sandbox): Contender {
  return {
    name,
    async sample() {
      const [list, entries] = await timed(() => box.files.list('many'))
      if (entries.length !== entryCount) throw new Error(`${entries.length} entries were listed`)
      const [command] = await timed(() => box.commands.run('ls -l --full-time many'))
      return { 'files.list': list, 'ls -l as a command': command }
    },
  }
}
