/** What tests of pauses and resumes begin with: a sandbox that has something to keep. */

import { openRules } from '../../src/core/ports/egress.ts'
import type { SandboxOptions } from '../../src/core/sandbox/row/sandbox.ts'
import { noAgent } from '../../src/drivers/driver-fixture.ts'
import { type Fixture, request } from './domain.ts'

export const wish = { memory: true, requireHealthyAgent: false }
export const timed = { timeoutMs: 60_000, memory: true }

export const options = (changes: Partial<SandboxOptions>) => ({
  options: { ...request().options, ...changes },
})

/** A running sandbox with something in its memory and something in a file. */
export async function running({ service, team, driver }: Fixture, changes: Partial<SandboxOptions> = {}) {
  const { sandboxID } = await service.create(team, request(options(changes)))
  const inside = driver.world.sandboxes.get(sandboxID)!
  inside.memory.set('m', 'memory')
  inside.files.set('f', 'file')
  return sandboxID
}

export function contentOf({ driver }: Fixture, sandboxID: string): (string | undefined)[] {
  const inside = driver.world.sandboxes.get(sandboxID)
  return [inside?.memory.get('m'), inside?.files.get('f')]
}

export const stateOf = async ({ stores }: Fixture, sandboxID: string) =>
  (await stores.sandboxes.find(sandboxID))?.state

/** What a resume has done with the driver when its process is lost: the run `next` is there, and no row says that it runs. */
export async function startNextRun({ driver }: Fixture, sandboxID: string, snapshot: string): Promise<void> {
  const fromSnapshot = { folder: snapshot, memory: true, keepSnapshot: false }
  const sizes = { cpuCount: 1, memoryMB: 1, diskMB: 1, egress: openRules }
  const run = { sandboxID, runID: 'next', rootFolder: '/root', agent: noAgent }
  await driver.start({ ...run, ...sizes, fromSnapshot })
}
