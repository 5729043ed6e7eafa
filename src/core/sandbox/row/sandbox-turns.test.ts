import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newUUID } from '../../../lib/ids.ts'
import type { EndReason, Sandbox } from './sandbox.ts'
import type { SandboxStore } from './sandbox-store.ts'
import { type SandboxInTurn, SandboxTurns } from './sandbox-turns.ts'

/** The error of a create whose row says this by the time that the sandbox has started. */
async function overtakenBy(row: { endReason: EndReason | null } | undefined, doing: string): Promise<string> {
  const sandboxes = { find: async () => row as Sandbox | undefined } as unknown as SandboxStore
  const turns = new SandboxTurns(sandboxes)
  const seen = { sandboxID: 'a', runID: newUUID() } as SandboxInTurn
  const { code, message } = await turns.overtaken(seen, doing)
  return `${code}: ${message}`
}

test('work that comes too late tells what happened to the sandbox meanwhile', async () => {
  assert.match(await overtakenBy({ endReason: 'killed' }, 'created'), /^conflict: .* was killed while/)
  assert.match(await overtakenBy({ endReason: 'timeout' }, 'resumed'), /^unavailable: The timeout of sandbox/)
  assert.match(await overtakenBy({ endReason: 'timeout' }, 'paused'), /^conflict: .* was killed while/)
  assert.match(
    await overtakenBy({ endReason: 'create_failed' }, 'created'),
    /^unavailable: Another node gave/,
  )
  assert.match(await overtakenBy({ endReason: 'lost' }, 'paused'), /^conflict: .* its node was forgotten/)
  assert.match(
    await overtakenBy({ endReason: null }, 'paused'),
    /^unavailable: .* by another node .* try again/,
  )
  assert.match(await overtakenBy(undefined, 'paused'), /^unavailable: .* by another node .* try again/)
})
