/**
 * Time to interactive, as sandbox services are publicly ranked: `create` plus `node -v` with the ordinary
 * client, removal untimed, no retries, failures counted. One after the other, one each 200 ms, all at once.
 * Five percent are cut off at each end.
 */
import { Sandbox } from 'e2b'
import { delay } from '../../../src/lib/clock.ts'
import type { Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { warrenName } from '../contenders/warren.ts'
import { type Contender, type Row, takeTurns, timed, trimmed } from '../measure.ts'
import type { Report } from '../report.ts'

const staggerMs = 200
const cutShare = 0.05

export async function interactive(machine: BenchMachine, { count }: { count: number }): Promise<Report> {
  const { signal } = machine
  const contenders: Contender[] = []
  for (const isolation of machine.isolations) contenders.push(nodeVersion(await machine.warren(isolation)))
  const docker = await machine.docker()
  if (docker) {
    const sample = async () => ({ interactive: (await docker.run(['node', '-v'])).firstOutputMs })
    contenders.push({ name: 'docker', sample })
  }
  machine.say(`  ${count} one after the other`)
  const rows = named('sequential', await takeTurns(contenders, { rounds: count, signal }))
  for (const [mode, apartMs] of [
    ['staggered', staggerMs],
    ['burst', 0],
  ] as const) {
    machine.say(`  ${count} ${mode}`)
    for (const contender of contenders) {
      rows.push(...named(mode, await together(contender, count, apartMs, signal)))
      // The pool of prepared slots fills up again.
      await delay(3000, signal)
    }
  }
  const cut = rows.map((row) => ({ ...row, samples: trimmed(row.samples, cutShare) }))
  return { title: `Time to interactive: create + node -v, ${count} each, 5 % trimmed at each end`, rows: cut }
}

function nodeVersion(warren: Warren): Contender {
  const use = async (sandbox: Sandbox) => {
    const { stdout } = await sandbox.commands.run('node -v')
    if (!/^v\d+\./.test(stdout)) throw new Error(`node -v said ${JSON.stringify(stdout)}`)
  }
  return {
    name: warrenName(warren),
    async sample() {
      const [createMs, sandbox] = await timed(() => Sandbox.create('base', warren.client))
      try {
        const [commandMs] = await timed(() => use(sandbox))
        return { interactive: createMs + commandMs }
      } finally {
        await sandbox.kill()
      }
    },
  }
}

async function together(
  contender: Contender,
  count: number,
  apartMs: number,
  signal: AbortSignal,
): Promise<Row[]> {
  const tries = Array.from({ length: count }, async (_, index) => {
    await delay(index * apartMs, signal)
    return takeTurns([contender], { rounds: 1, warmUps: 0, pauseMs: 0, signal })
  })
  // All of them, also after Ctrl-C: each removes its own sandbox.
  const settled = await Promise.allSettled(tries)
  signal.throwIfAborted()
  return merged(settled.flatMap((one) => (one.status === 'fulfilled' ? one.value : [])))
}

function merged(rows: readonly Row[]): Row[] {
  return Object.values(Object.groupBy(rows, ({ name }) => name)).map((same) => ({
    ...same![0]!,
    samples: same!.flatMap(({ samples }) => samples),
    failures: same!.flatMap(({ failures }) => failures),
  }))
}

const named = (mode: string, rows: readonly Row[]): Row[] =>
  rows.map((row) => ({ ...row, name: `${mode} · ${row.name.replace(' · interactive', '')}` }))
