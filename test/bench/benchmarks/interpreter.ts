/**
 * The code interpreter as its users meet it: create until the first answer, the next answer, ten at once, and what one
 * holds in memory. The template is made first, which takes some minutes on a fresh data folder.
 */
import { Sandbox } from '@e2b/code-interpreter'
import { delay } from '../../../src/lib/clock.ts'
import { runCommand } from '../../../src/lib/run-command.ts'
import { repoFolder, type Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { warrenName } from '../contenders/warren.ts'
import { type Contender, type Row, rowName, takeTurns, timed } from '../measure.ts'
import { chargedMB } from '../processes.ts'
import type { Report } from '../report.ts'

const atOnce = 10
const maxRounds = 5
/** Until the warm pool has restored the next one. */
const pauseMs = 3000
/** Until what the first answer left to do is done. */
const idleMs = 2000
const question = 'sum(range(101))'
const answer = '5050'

export async function interpreter(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const contenders: Contender[] = []
  const memory: Row[] = []
  for (const isolation of machine.isolations) {
    const warren = await machine.warren(isolation, 'trusting')
    await addTemplate(warren, machine.say)
    const memoryRow: Row = {
      name: rowName(warrenName(warren), 'memory'),
      unit: 'MB',
      samples: [],
      failures: [],
    }
    memory.push(memoryRow)
    contenders.push(life(warren, memoryRow), crowd(warren))
  }
  const max = Math.min(rounds, maxRounds)
  const onRound = (done: number) => machine.say(`  round ${done} of ${max}`)
  const rows = await takeTurns(contenders, { rounds: max, pauseMs, signal: machine.signal, onRound })
  return { title: 'The code interpreter: create and run_code of Python', rows: [...rows, ...memory] }
}

async function addTemplate({ dataFolder }: Warren, say: (text: string) => void): Promise<void> {
  say('  Making the template of the code interpreter …')
  await runCommand(`${repoFolder}/bin/warren`, ['template', 'add', 'code-interpreter'], {
    env: { PATH: process.env.PATH ?? '', WARREN_DATA_DIR: dataFolder },
    timeoutMs: 20 * 60_000,
  })
}

function life(warren: Warren, memoryRow: Row): Contender {
  return {
    name: warrenName(warren),
    async sample() {
      const [create, sandbox] = await timed(() => Sandbox.create(warren.client))
      try {
        const first = await ask(sandbox)
        const second = await ask(sandbox)
        await delay(idleMs)
        memoryRow.samples.push(await chargedMB(sandbox.sandboxId))
        return { 'create + first answer': create + first, create, 'second answer': second }
      } finally {
        await sandbox.kill()
      }
    },
  }
}

/** None of them may fail. */
function crowd(warren: Warren): Contender {
  return {
    name: warrenName(warren),
    async sample() {
      const boxes: Sandbox[] = []
      const one = async () => {
        const sandbox = await Sandbox.create(warren.client)
        boxes.push(sandbox)
        await ask(sandbox)
      }
      try {
        const [ms] = await timed(() => Promise.all(Array.from({ length: atOnce }, one)))
        return { [`${atOnce} at once, until the last has answered`]: ms }
      } finally {
        await Promise.all(boxes.map((box) => box.kill()))
      }
    },
  }
}

async function ask(sandbox: Sandbox): Promise<number> {
  const [ms, { text, error }] = await timed(() => sandbox.runCode(question))
  if (text !== answer) throw new Error(`${question} gave ${error?.value ?? text}`)
  return ms
}
