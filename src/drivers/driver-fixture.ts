/** What the suites of drivers work with. */
import assert from 'node:assert/strict'
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
  /** A root that no sandbox can start from. */
  brokenRootFolder: string
  /** Everything sandboxes have on the machine right now, one line each. What the driver keeps ready counts too. */
  traces(): Promise<string[]>
  /** Waits until what is kept ready is complete. */
  settled(): Promise<void>
  close(): Promise<void>
}

/** What the tests of a driver work with; the bench is there once they run. */
export type DriverTools<Bench extends DriverBench> = {
  bench: () => Bench
  spec: (changes?: Partial<SandboxSpec>) => SandboxSpec
  find: (driver: Driver, sandboxID: string) => Promise<ReadableSandbox | undefined>
}

const small = { cpuCount: 1, memoryMB: 256, diskMB: 128, egress: openRules }

export function newSpec(rootFolder: string, changes: Partial<SandboxSpec> = {}): SandboxSpec {
  return { sandboxID: newSandboxID(), runID: newUUID(), rootFolder, ...small, ...changes }
}

/** The sandboxes that could be read; a suite has no others but those it made unreadable itself. */
export async function listed(driver: Driver): Promise<ReadableSandbox[]> {
  return (await driver.list()).filter((found) => !found.unreadable)
}

type Leaves = Pick<DriverBench, 'traces' | 'settled'>

/** Runs the work and then holds what is there against what was there before. */
export async function leavingNothing(bench: Leaves, work: () => Promise<unknown>): Promise<void> {
  await bench.settled()
  const counted = await steadyCount(bench)
  await work()
  await bench.settled()
  for (let attempt = 0; attempt < 100 && (await bench.traces()).length > counted; attempt++) await delay(50)
  const left = await bench.traces()
  // Fewer: the kernel was still removing something of an earlier test when they were counted.
  assert.ok(left.length <= counted, `${counted} before, left behind:\n${left.join('\n')}`)
}

/** What an earlier test ended may take a moment to be gone. */
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
