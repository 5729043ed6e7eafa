/** What happens to machines and sandboxes besides calls that fail. */
import { unreachableAfterMs } from '../../src/core/cluster/node.ts'
import { abandonHops, abandonRequests, rushFor } from './client-requests.ts'
import type { Mishap } from './plan.ts'
import type { SimulatedNode } from './simulated-node.ts'
import type { Simulation } from './simulation.ts'

export function letHappen(simulation: Simulation, { kind, node: at, pick, jumpMs }: Mishap): void {
  const node = nodeOfArrival(simulation, pick) ?? simulation.nodes[at]!
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
      simulation.faults.storeIsAwayUntilMs = simulation.time.elapsedMs + outageMs
      simulation.noteOutage(outageMs)
      break
    case 'short outage':
      simulation.note(() => 'answers of the store are lost for some seconds')
      simulation.faults.answersAreLostUntilMs = simulation.time.elapsedMs + 3000 + Math.round(pick * 3000)
      simulation.noteOutage(6000)
      break
    case 'round':
      simulation.note(() => `${node.name} begins a round`)
      if (node.isUp) node.beginRound()
      break
    case 'full disk':
      fillDisk(simulation, node, pick)
      break
    case 'little memory':
      useUpMemory(simulation, node, pick)
      break
    case 'gone':
      beGone(simulation)
      break
    case 'partition':
      simulation.note(() => `${node.name} does not reach the store for a while`)
      node.cutOffUntilMs = simulation.time.elapsedMs + (pick < 0.5 ? 5000 : outageMs)
      simulation.noteOutage(outageMs)
      break
    case 'standstill':
      simulation.note(() => `${node.name} is stopped for a while`)
      node.suspendedUntilMs = simulation.time.elapsedMs + standstillMs
      simulation.noteOutage(standstillMs)
      break
    case 'absence':
      beAway(simulation, node, pick)
      break
    case 'forgotten':
      beForgotten(simulation, node, pick)
      break
    case 'lost machine':
      loseMachine(simulation, node)
      break
    case 'drain':
      drain(simulation, node, pick)
      break
    case 'peers apart':
      simulation.note(() => `nothing goes between ${node.name} and the other nodes for a while`)
      node.cutFromPeersUntilMs = simulation.time.elapsedMs + (pick < 0.5 ? 5000 : outageMs)
      for (const other of simulation.nodes) abandonHops(simulation, [node.process, other.process])
      break
    case 'lapse':
      simulation.note(() => 'no node gives a sign of life in time')
      simulation.passTime(unreachableAfterMs + 1000)
      simulation.faults.leasesAreLostUntilMs = simulation.time.elapsedMs + Math.round(pick * outageMs)
      rush(simulation)
      break
    case 'rush':
      rush(simulation)
      break
    case 'lost copies':
      loseCopies(simulation)
      break
    case 'old copy':
      setBack(simulation, node, pick)
      break
    case 'no object store':
      simulation.note(() => 'the object store is away for a while')
      simulation.faults.objectsAreAwayUntilMs = simulation.time.elapsedMs + outageMs
      break
    case 'jump':
      simulation.note(() => `${node.name}: the clock jumps by ${jumpMs} ms`)
      node.wall.jump(jumpMs)
  }
}

/** Most mishaps of a history with arrivals meet one. */
function nodeOfArrival(simulation: Simulation, pick: number): SimulatedNode | undefined {
  const { watch, plan } = simulation
  if (plan.arrivalMs === undefined || pick % 0.1 < 0.02) return undefined
  const arriving = [...watch.sandboxes.values()].find(({ snapshot }) => snapshot?.arrivesFrom)
  return arriving && simulation.ownerOf(arriving.sandboxID)
}

function rush(simulation: Simulation): void {
  for (const { state, isStored, sandboxID } of simulation.watch.sandboxes.values())
    if (state === 'paused' && isStored) rushFor(simulation, sandboxID)
}

const outageMs = 30_000
/** Longer than a lease lasts, and than others remember it. */
const standstillMs = 25_000

/** Short enough for all to be up again before the history is checked. */
const maxAbsentMs = 40_000
/** An operator that forgets a node waits until it counts as away. */
const forgetAfterMs = unreachableAfterMs + 2000

/** The process ends and comes back later. Sandboxes on the machine keep running. */
function beAway(simulation: Simulation, node: SimulatedNode, pick: number): void {
  if (!node.core) return
  end(simulation, node, pick)
  const backAtMs = simulation.time.elapsedMs + Math.round(pick * maxAbsentMs)
  simulation.onElapsed(backAtMs, () => {
    if (!node.core && !node.isGone) node.boot()
  })
}

/** Its lease is over, for one of several reasons, and the operator takes it for gone; then it is back. */
function beForgotten(simulation: Simulation, node: SimulatedNode, pick: number): void {
  const { time } = simulation
  if (pick < 0.4) beAway(simulation, node, 1)
  else if (pick < 0.7) node.suspendedUntilMs = time.elapsedMs + standstillMs
  else node.cutOffUntilMs = time.elapsedMs + outageMs
  simulation.noteOutage(outageMs)
  simulation.onElapsed(time.elapsedMs + forgetAfterMs, () => {
    if (!node.isGone) forget(simulation, node)
  })
}

/** It never comes back, and the operator says so. The others stay. */
function loseMachine(simulation: Simulation, node: SimulatedNode): void {
  const { time, nodes, ledger, faults } = simulation
  if (!node.core || !faults.areOn || nodes.some(({ isGone }) => isGone)) return
  simulation.note(() => `${node.name} goes down for good, with all that runs on it`)
  end(simulation, node, 1)
  for (const { spec } of node.world.sandboxes.values()) ledger.died.add(spec.runID)
  node.world.sandboxes.clear()
  node.isGone = true
  simulation.noteOutage(Number.POSITIVE_INFINITY)
  simulation.onElapsed(time.elapsedMs + forgetAfterMs, () => forget(simulation, node))
}

function forget(simulation: Simulation, node: SimulatedNode): void {
  const { time, database, ledger } = simulation
  const { nodes } = database.storesOf('operator')
  simulation.forgotten.add(node.name)
  const own = [...simulation.watch.sandboxes.values()].filter(({ nodeID }) => nodeID === node.name)
  for (const { startedRunID } of own) ledger.died.add(startedRunID)
  void nodes.forget(node.name, time.now(), 0).then((lost) => {
    simulation.forgotten.delete(node.name)
    node.isForgotten ||= lost !== undefined
    // The operator is wrong where the machine lives: another node may resume what it still runs.
    for (const { snapshot, sandboxID, runID } of lost ? own : []) {
      if (snapshot?.arrivesFrom) node.oldCopies.add(sandboxID)
      if (snapshot?.arrivesFrom ?? snapshot?.storedFrom) node.oldStarts.add(runID)
    }
    simulation.note(() => `${node.name} is forgotten: ${lost ? JSON.stringify(lost) : 'it lives'}`)
  })
}

/** What the object store has is there on no disk any more, so that the next resume fetches it. */
function loseCopies({ nodes, watch, ledger, note }: Simulation): void {
  const asked = new Set([...ledger.underway, ...ledger.unheard].map(({ sandboxID }) => sandboxID))
  for (const { state, isStored, snapshot, sandboxID, nodeID } of watch.sandboxes.values()) {
    if (state !== 'paused' || !isStored || asked.has(sandboxID) || ledger.drained.size > 0) continue
    note(() => `the disks lose their copy of ${sandboxID}`)
    nodes.find(({ name }) => name === nodeID)!.world.snapshots.delete(snapshot!.name)
  }
}

/** A machine that is set back to an earlier moment, as from a backup, runs what another node has by now. */
function setBack(simulation: Simulation, node: SimulatedNode, pick: number): void {
  const there = simulation.nodes
    .filter((other) => other !== node)
    .flatMap(({ world }) => [...world.sandboxes.values()])
  const lived = there.filter(({ running, spec: { sandboxID } }) => {
    const isReported = simulation.watch.sandboxes.has(sandboxID)
    return running && isReported && !node.world.sandboxes.has(sandboxID)
  })
  const copied = lived[Math.floor(pick * lived.length)]
  if (!copied || !node.core) return
  const { sandboxID } = copied.spec
  end(simulation, node, 1)
  const run = { sandboxID, runID: 'an earlier run' }
  const handle = { ...copied.handle, data: { ...run, address: `old-${node.name}` } }
  const rest = {
    running: true,
    frozen: false,
    frozenSnapshot: undefined,
    memory: new Map(),
    files: new Map(),
    enforced: copied.spec.egress,
  }
  node.world.sandboxes.set(sandboxID, { spec: { ...copied.spec, ...run }, handle, ...rest })
  simulation.note(() => `${node.name} comes back with a copy of ${sandboxID}`)
  node.oldCopies.add(sandboxID)
  node.boot()
}

/** For longer than a start waits for its turn. */
const minFullMs = 60_000

function fillDisk(simulation: Simulation, { name }: SimulatedNode, pick: number): void {
  const { note, fullSince, step, time } = simulation
  if (fullSince.has(name)) return
  note(() => `${name}: the disk is full`)
  fullSince.set(name, step)
  simulation.onElapsed(time.elapsedMs + minFullMs + Math.round(pick * minFullMs), () => {
    note(() => `${name}: the disk has space again`)
    fullSince.delete(name)
  })
}

/** Lasts longer than the time after which frozen sandboxes are paused to the disk. */
const minScarceMs = 20_000

function useUpMemory(simulation: Simulation, { name, memory }: SimulatedNode, pick: number): void {
  const { note, time } = simulation
  if (memory.isScarce) return
  memory.becomeScarce(pick < 0.3 ? 1 : pick < 0.6 ? 2 : 'a team', (pick * 7) % 1)
  note(() => `${name}: memory is scarce, and ${[...memory.hogs].join(', ')} take more and more`)
  simulation.onElapsed(time.elapsedMs + minScarceMs + Math.round(pick * minScarceMs), () => {
    note(() => `${name}: there is enough memory again`)
    memory.beEnough()
  })
}

/** From the next sandbox on that a node takes over, that node never comes back. */
function beGone(simulation: Simulation): void {
  simulation.note(() => 'the next node that takes a sandbox over goes down for good')
  simulation.watch.onClaimed = (row) => {
    const node = simulation.nodes.find(({ name }) => name === row.nodeID)!
    simulation.watch.onClaimed = () => {}
    simulation.afterStep.push(() => {
      if (!node.core || !simulation.faults.areOn) return
      end(simulation, node, 1)
      node.isGone = true
      simulation.noteOutage(Number.POSITIVE_INFINITY)
    })
  }
}

function drain(simulation: Simulation, node: SimulatedNode, pick: number): void {
  const { time, ledger, database } = simulation
  simulation.note(() => `${node.name} is to be drained`)
  ledger.drained.add(node.name)
  void database.storesOf('operator').nodes.setStatus(node.name, 'draining')
  simulation.onElapsed(time.elapsedMs + Math.round(pick * 200_000), () => simulation.undrain(node.name))
}

/** Starts that the process had begun go on without it, or come to nothing. */
function crash(simulation: Simulation, node: SimulatedNode, pick: number): void {
  if (node.isGone) return
  end(simulation, node, pick)
  node.boot()
}

function end(simulation: Simulation, node: SimulatedNode, pick: number): void {
  simulation.note(() => `${node.name}: the process dies`)
  const { process } = node
  abandonRequests(simulation, process, node.crash())
  for (const sandboxID of node.starting) {
    noteUsedUp(simulation, sandboxID)
    const sandbox = node.world.sandboxes.get(sandboxID)
    if (sandbox && pick < 0.5) sandbox.running = true
  }
  node.starting.clear()
}

/** Everything in memory is lost, and all that runs; what lies on the disk stays. */
function reboot(simulation: Simulation, node: SimulatedNode): void {
  if (node.isGone) return
  simulation.note(() => `${node.name}: the machine goes down and comes back`)
  const { process } = node
  abandonRequests(simulation, process, node.crash())
  for (const { spec } of node.world.sandboxes.values()) {
    simulation.ledger.died.add(spec.runID)
    const entry = simulation.ledger.entries.get(spec.sandboxID)
    if (entry) entry.keepsMemory = false
  }
  node.world.sandboxes.clear()
  for (const sandboxID of node.starting) noteUsedUp(simulation, sandboxID)
  node.starting.clear()
  node.boot()
}

/** The files of a snapshot are in use from the beginning of a start on. */
function noteUsedUp({ ledger }: Simulation, sandboxID: string): void {
  const resume = ledger.entries.get(sandboxID)?.resume
  if (resume) resume.hasStarted = true
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
