/** Sandboxes that run before a history begins, and whose time is over soon after. */

import { noAgent } from '../../src/drivers/driver-fixture.ts'
import { FakeDriver } from '../../src/drivers/fake/fake-driver.ts'
import { newUUID } from '../../src/lib/ids.ts'
import { aSandbox, usualOptions } from '../../src/store/suite/rows.ts'
import type { Plan } from './plan.ts'
import { rootFolder } from './simulated-node.ts'
import type { Simulation } from './simulation.ts'

const pausedAfterMs = 5000
/** They are due when as many are being paused as may be at once. */
const endedAfterMs = 6000

export async function startDueSoon(
  simulation: Simulation,
  { pauses, ends }: NonNullable<Plan['dueSoon']>,
): Promise<void> {
  const [team, node] = [simulation.teams[0]!, simulation.nodes[0]!]
  const { sandboxes } = simulation.database.storesOf(node.name)
  const driver = new FakeDriver({ world: node.world })
  const now = node.wall.now()
  for (let at = 0; at < pauses + ends; at++) {
    const autoPause = at < pauses
    const row = aSandbox(team.teamID, {
      templateID: 'basetemplate',
      buildID: '11111111-1111-4111-8111-111111111111',
      timeoutMs: 60_000,
      options: { ...usualOptions, autoPause },
      createdAt: now,
      startedAt: now,
      endAt: now + (autoPause ? pausedAfterMs : endedAfterMs),
    })
    const { sandboxID, runID, cpuCount, memoryMB, diskMB } = row
    await sandboxes.insertWithinLimits(row, team.limits)
    const egress = { allow: [], deny: [], toGate: 'none' } as const
    const spec = { sandboxID, runID, rootFolder, agent: noAgent, cpuCount, memoryMB, diskMB, egress }
    const handle = await driver.start(spec)
    const named = { transitionID: newUUID(), at: now }
    await sandboxes.transition({ sandboxID, runID, from: ['creating'] }, 'running', { handle }, named)
  }
  await driver.close()
}
