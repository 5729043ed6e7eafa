/**
 * CPU time in place of wall time: of the whole machine for a cold create, and of the agent alone for a short command.
 * The first holds only on a machine that does nothing else; what it does by itself is measured before and taken off.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { Sandbox } from 'e2b'
import { delay } from '../../../src/lib/clock.ts'
import type { Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { echo, warrenName } from '../contenders/warren.ts'
import { type Row, rowName } from '../measure.ts'
import { agentOf } from '../processes.ts'
import { medianOf, type Report } from '../report.ts'

const idleMs = 2000
/** Until what a create or a kill left to do is done. */
const restMs = 700
/** Share of one core above which the machine does too much else. */
const maxAtRest = 0.2
const commands = 100
const [create, agentEcho] = ['cold create, whole machine', 'echo, agent process']

export async function cpu(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const rows: Row[] = []
  for (const isolation of machine.isolations) {
    const cold = await machine.warren(isolation, 'cold')
    rows.push(row(cold, create, await createCosts(cold, rounds, machine)))
    // Under gVisor the agent's time is within that of the sentry.
    if (isolation === 'container') rows.push(row(cold, agentEcho, [await agentCost(cold)]))
  }
  const cost = (isolation: string, step: string) => medianOf({ rows }, rowName(`warren ${isolation}`, step))
  return {
    title: 'CPU time',
    rows,
    targets: [
      { promise: 'container, CPU of a cold create', value: cost('container', create), atMost: 110 },
      { promise: 'gVisor, CPU of a cold create', value: cost('gvisor', create), atMost: 220 },
      { promise: 'CPU of the agent for an echo', value: cost('container', agentEcho), atMost: 2 },
    ].map((target) => ({ ...target, unit: ' ms' })),
  }
}

function row(warren: Warren, step: string, samples: number[]): Row {
  return { name: rowName(warrenName(warren), step), unit: 'ms', samples, failures: [] }
}

async function createCosts(warren: Warren, rounds: number, { signal, say }: BenchMachine): Promise<number[]> {
  const costs: number[] = []
  await delay(idleMs, signal)
  const atRest = machineMs()
  await delay(idleMs, signal)
  const restShare = (machineMs() - atRest) / idleMs
  if (restShare > maxAtRest) {
    say(`  The CPU of a create is left out: other programs keep ${restShare.toFixed(1)} of a core busy.`)
    return []
  }
  for (let round = 0; round < rounds; round++) {
    const [started, before] = [performance.now(), machineMs()]
    const sandbox = await Sandbox.create('base', warren.client)
    await delay(restMs, signal)
    costs.push(machineMs() - before - restShare * (performance.now() - started))
    await sandbox.kill()
    await delay(restMs, signal)
  }
  return costs
}

async function agentCost(warren: Warren): Promise<number> {
  const sandbox = await Sandbox.create('base', warren.client)
  try {
    for (let warmUp = 0; warmUp < 20; warmUp++) await echo(sandbox)
    const pid = agentOf(sandbox.sandboxId)
    const before = processMs(pid)
    for (let command = 0; command < commands; command++) await echo(sandbox)
    return (processMs(pid) - before) / commands
  } finally {
    await sandbox.kill()
  }
}

/** Busy time of all CPUs since the boot, in milliseconds: user, nice, system, and interrupts. */
function machineMs(): number {
  const [user, nice, system, , , irq, softirq] = readFileSync('/proc/stat', 'utf8')
    .split('\n', 1)[0]!
    .trim()
    .split(/\s+/)
    .slice(1)
    .map(Number)
  // The kernel counts in hundredths of a second.
  return (user! + nice! + system! + irq! + softirq!) * 10
}

function processMs(pid: number): number {
  const tasks = readdirSync(`/proc/${pid}/task`)
  const spent = tasks.map((task) => readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0])
  return spent.reduce((sum, nanoseconds) => sum + Number(nanoseconds) / 1e6, 0)
}
