/** What must hold at every moment, whatever the rows say. */
import { shortID } from './parked-calls.ts'
import { signOfLifeEveryMs } from './simulated-loops.ts'
import type { SimulatedNode } from './simulated-node.ts'
import type { Simulation } from './simulation.ts'
import { Violation } from './violation.ts'

/** How late the end of a sandbox may be where the store answers and nothing else keeps its end. */
const maxLateMs = 10_000

export function checkEachStep(simulation: Simulation): void {
  for (const happens of simulation.afterStep.splice(0)) happens()
  checkCopies(simulation)
  checkKilled(simulation)
  checkSmall(simulation)
  checkSigns(simulation)
  if (simulation.plan.dueSoon) checkLateEnds(simulation)
}

/** The others take a node for dead that gives no sign of life, so nothing but the database may keep it from giving one. */
function checkSigns({ nodes, time, report }: Simulation): void {
  for (const { name, clock, sign, isSuspended, suspendedUntilMs } of nodes) {
    // Time may have jumped, and its timers are due then.
    const isDue = (clock?.nextAt() ?? 0) <= time.elapsedMs
    if (!sign || sign.isUnderWay || isSuspended || isDue) continue
    const quietMs = time.elapsedMs - Math.max(sign.atMs, suspendedUntilMs)
    if (quietMs <= 2 * signOfLifeEveryMs) continue
    report(new Violation('sign of life', `${name} lives and has given no sign of it for ${quietMs} ms`))
  }
}

/** A sandbox of a team below its fair share of the memory is never frozen because others take more. */
function checkSmall({ watch, nodes, report }: Simulation): void {
  for (const { memory, world } of nodes) {
    memory.grow()
    if (!memory.isScarce) continue
    for (const [sandboxID, { frozen, running }] of world.sandboxes) {
      if (!frozen || !running || memory.mayTouch(sandboxID)) continue
      if (watch.sandboxes.get(sandboxID)?.state === 'running')
        report(
          new Violation(
            'neighbour',
            `${shortID(sandboxID)} is frozen, and its team takes less memory than its fair share`,
          ),
        )
    }
  }
}

/** Never do two copies of a sandbox run. */
function checkCopies({ plan, nodes, report }: Simulation): void {
  if (!plan.isCluster) return
  const seen = new Map<string, string>()
  for (const { name, world, oldCopies, oldStarts } of nodes) {
    for (const sandboxID of oldCopies) if (!world.sandboxes.has(sandboxID)) oldCopies.delete(sandboxID)
    for (const [sandboxID, { running, frozen, spec }] of world.sandboxes) {
      if (!running || frozen || oldCopies.has(sandboxID) || oldStarts.has(spec.runID)) continue
      const other = seen.get(sandboxID)
      if (other)
        report(new Violation('one copy', `${shortID(sandboxID)} runs on ${other}, and on ${name} too`))
      seen.set(sandboxID, name)
    }
  }
}

/** What a client was told is killed never runs again. An operator who forgets a node that lives is warned of that. */
function checkKilled({ ledger, nodes, report }: Simulation): void {
  if (ledger.killReported.size === 0) return
  for (const { name, world, oldCopies, isForgotten } of nodes) {
    for (const [sandboxID, { running, frozen }] of world.sandboxes) {
      if (
        !running ||
        frozen ||
        isForgotten ||
        oldCopies.has(sandboxID) ||
        !ledger.killReported.has(sandboxID)
      )
        continue
      report(
        new Violation(
          'killed',
          `${shortID(sandboxID)} runs on ${name}, and a client was told that it is killed`,
        ),
      )
    }
  }
}

/** However many others are to be paused meanwhile. */
function checkLateEnds({ watch, nodes, report }: Simulation): void {
  const now = nodes[0]!.wall.now()
  for (const { sandboxID, state, endAt, options } of watch.sandboxes.values()) {
    const lateMs = now - endAt
    if (state !== 'running' || options.autoPause || lateMs <= maxLateMs) continue
    report(new Violation('overdue', `${shortID(sandboxID)} runs on ${lateMs} ms after its time was over`))
  }
}

/** A node that comes back stops what others have taken over before it answers anybody, unless that failed. */
export function checkCopiesOf(
  { plan, watch, report }: Simulation,
  { name, world, mayFailToStart }: SimulatedNode,
): void {
  const stopFails = Object.values(plan.faults.driver ?? {}).some((likely) => likely > 0)
  if (!plan.isCluster || (mayFailToStart && stopFails)) return
  for (const sandboxID of world.sandboxes.keys()) {
    const row = watch.sandboxes.get(sandboxID)
    if (!row || row.state === 'ended' || row.nodeID === name || world.unreadable.has(sandboxID)) continue
    report(new Violation('one copy', `${name} is up and has ${shortID(sandboxID)}, which is ${row.nodeID}'s`))
  }
}
