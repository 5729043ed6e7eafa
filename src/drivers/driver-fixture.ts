/** The types and functions that the driver suites share. */
import assert from 'node:assert/strict'
import type { AgentProgram } from '../core/ports/agent-program.ts'
import type { Driver, ReadableSandbox, SandboxSpec } from '../core/ports/driver.ts'
import { openRules } from '../core/ports/egress.ts'
import { delay } from '../lib/clock.ts'
import { newSandboxID, newUUID } from '../lib/ids.ts'

export type DriverBench = {
  driver: Driver
  /** A second driver over the same machine and data, as after a restart. */
  another(): Driver
  /** A folder that has not been prepared yet. */
  rootFolder: string
  agent: AgentProgram
  /** A root that no sandbox can start from. */
  brokenRootFolder: string
  /** One line for each thing that sandboxes and prepared slots have on the machine now. */
  traces(): Promise<string[]>
  /** Waits until all prepared slots are ready. */
  settled(): Promise<void>
  close(): Promise<void>
}

/** What a test of a driver gets. The bench exists once tests run, not while they are declared. */
export type DriverTools<Bench extends DriverBench> = {
  bench: () => Bench
  spec: (changes?: Partial<SandboxSpec>) => SandboxSpec
  find: (driver: Driver, sandboxID: string) => Promise<ReadableSandbox | undefined>
}

/** For drivers that start no program. */
export const noAgent: AgentProgram = { folder: '/kit', command: ['/init'], env: {} }

const small = { cpuCount: 1, memoryMB: 256, diskMB: 128, egress: openRules }

export function newSpec(
  { rootFolder, agent }: Pick<DriverBench, 'rootFolder' | 'agent'>,
  changes: Partial<SandboxSpec> = {},
): SandboxSpec {
  return { sandboxID: newSandboxID(), runID: newUUID(), rootFolder, agent, ...small, ...changes }
}

/** The listed sandboxes whose state could be read. A suite has no others, except those it made unreadable itself. */
export async function listed(driver: Driver): Promise<ReadableSandbox[]> {
  return (await driver.list()).filter((found) => !found.unreadable)
}

type Leaves = Pick<DriverBench, 'traces' | 'settled'>

/** Calls `work` and asserts that the machine has no more traces of sandboxes than before. */
export async function leavingNothing(bench: Leaves, work: () => Promise<unknown>): Promise<void> {
  await bench.settled()
  const counted = await steadyCount(bench)
  await work()
  await bench.settled()
  for (let attempt = 0; attempt < 100 && (await bench.traces()).length > counted; attempt++) await delay(50)
  const left = await bench.traces()
  // There may be fewer: the kernel was still removing traces of an earlier test at the first count.
  assert.ok(left.length <= counted, `${counted} before, left behind:\n${left.join('\n')}`)
}

/** Counts until the number is stable: traces of an earlier test may take a moment to vanish. */
async function steadyCount(bench: Leaves): Promise<number> {
  let counted = (await bench.traces()).length
  for (let [same, attempt] = [0, 0]; same < 5 && attempt < 200; attempt++) {
    await delay(50)
    const now = (await bench.traces()).length
    same = now === counted ? same + 1 : 0
    counted = now
  }
  return counted
}
