/** What happens to machines and sandboxes besides calls that fail. */
import { abandonRequests } from './client-requests.ts'
import type { Mishap } from './plan.ts'
import type { SimulatedNode } from './simulated-node.ts'
import type { Simulation } from './simulation.ts'

export function letHappen(simulation: Simulation, { kind, node: at, pick, jumpMs }: Mishap): void {
  const node = simulation.nodes[at]!
  switch (kind) {
    case 'crash':
      crash(simulation, node, pick)
      break
    case 'reboot':
      reboot(simulation, node)
      break
    case 'death':
      death(simulation, node, pick)
      break
    case 'unreadable':
      makeUnreadable(simulation, node, pick)
      break
    case 'outage':
      simulation.note(() => 'the store is away for a while')
      simulation.storeIsAwayUntilMs = simulation.time.elapsedMs + outageMs
      simulation.hadOutage = true
      break
    case 'jump':
      simulation.note(() => `${node.name}: the clock jumps by ${jumpMs} ms`)
      node.wall.jump(jumpMs)
  }
}

const outageMs = 30_000

/** Starts that the process had begun go on without it, or come to nothing. */
function crash(simulation: Simulation, node: SimulatedNode, pick: number): void {
  simulation.note(() => `${node.name}: the process dies`)
  const { process } = node
  node.crash()
  abandonRequests(simulation, process)
  for (const sandboxID of node.starting) {
    const sandbox = node.world.sandboxes.get(sandboxID)
    if (sandbox && pick < 0.5) sandbox.running = true
  }
  node.starting.clear()
  node.boot()
}

/** Everything in memory is lost, and all that runs; what lies on the disk stays. */
function reboot(simulation: Simulation, node: SimulatedNode): void {
  simulation.note(() => `${node.name}: the machine goes down and comes back`)
  const { process } = node
  node.crash()
  abandonRequests(simulation, process)
  for (const { spec } of node.world.sandboxes.values()) {
    simulation.ledger.died.add(spec.runID)
    const entry = simulation.ledger.entries.get(spec.sandboxID)
    if (entry) entry.keepsMemory = false
  }
  node.world.sandboxes.clear()
  node.starting.clear()
  node.boot()
}

function death(simulation: Simulation, node: SimulatedNode, pick: number): void {
  const alive = [...node.world.sandboxes.values()].filter(({ running }) => running)
  const victim = alive[Math.floor(pick * alive.length)]
  if (!victim) return
  simulation.note(() => `${node.name}: the processes of ${victim.spec.sandboxID} die`)
  node.endProcesses(victim.spec.sandboxID)
  simulation.ledger.died.add(victim.spec.runID)
  const entry = simulation.ledger.entries.get(victim.spec.sandboxID)
  if (entry && victim.frozen) entry.keepsMemory = false
}

/** Until as much time has passed as a full table of file descriptors may last. */
const unreadableMs = 70_000

function makeUnreadable(simulation: Simulation, { name, world, wall }: SimulatedNode, pick: number): void {
  const names = [...world.sandboxes.keys(), ...world.snapshots.keys()]
  const chosen = pick < 0.3 ? names : names.slice(Math.floor(pick * names.length)).slice(0, 1)
  simulation.note(() => `${name}: ${chosen.join(', ')} cannot be read`)
  for (const one of chosen) world.unreadable.add(one)
  simulation.onElapsed(wall.time.elapsedMs + unreadableMs, () => {
    for (const one of chosen) world.unreadable.delete(one)
  })
}
