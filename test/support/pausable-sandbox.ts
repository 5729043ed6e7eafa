/** What tests of pauses and resumes begin with: a sandbox that has something to keep. */
import type { SandboxOptions } from '../../src/core/sandbox/row/sandbox.ts'
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
