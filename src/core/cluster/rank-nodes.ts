/** Ranks the nodes that may start a new sandbox, best first, by the last report of each node. */
import { type ClusterNode, isAway, type NodeFacts } from './node.ts'

export type PlacementDemand = {
  templateID: string
  cpuCount: number
  memoryMB: number
  /** Missing if the sandbox needs no GPU. */
  gpuCount?: number
  /**
   * The node that built the template and whose CPU and isolation its memory needs. Undefined if every node
   * has its own build.
   */
  builder: string | undefined
  buildID: string | undefined
  /** Only the builder has the build's bytes. */
  isBound: boolean
}

/** CPU, memory and GPUs of requests that were sent to a node since its last report. */
export type SentDemand = { cpuCount: number; memoryMB: number; gpuCount?: number }

export type RankedNode = { node: ClusterNode; hasRoom: boolean }

export type RankingFacts = {
  sentTo: (nodeID: string) => SentDemand
  /** False if the last attempt of this node to reach the other one failed. */
  isReachable?: (node: ClusterNode) => boolean
  /** `drawBelow(n)` draws a random integer from 0 to n - 1. */
  drawBelow: (count: number) => number
}

/** Nodes that this node cannot reach come last. */
export function rankNodes(
  nodes: readonly ClusterNode[],
  demand: PlacementDemand,
  { sentTo, isReachable = () => true, drawBelow }: RankingFacts,
): RankedNode[] {
  const builder = nodes.find(({ nodeID }) => nodeID === demand.builder)
  const canRun = builder ? createCanRun(builder.facts) : () => true
  const fitting = nodes.filter(
    (node) =>
      !isAway(node) &&
      node.status === 'ready' &&
      (!demand.isBound || node === builder) &&
      canRun(node.facts) &&
      hasGpusFor(node, demand),
  )
  const ranked = fitting.map((node) => {
    const sent = sentTo(node.nodeID)
    const room = roomOf(node, sent)
    const hasRoom =
      room.cpu >= demand.cpuCount && room.memoryMB >= demand.memoryMB && room.gpus >= (demand.gpuCount ?? 0)
    const grade = (isReachable(node) ? 20 : 0) + (hasRoom ? 10 : 0) + tierOf(node, demand)
    return { node, hasRoom, grade, fullness: fullnessOf(node, sent) }
  })
  ranked.sort((a, b) => b.grade - a.grade || a.fullness - b.fullness)
  const best = ranked.filter(({ grade }) => grade === ranked[0]!.grade)
  const first = emptierOfTwo(best, drawBelow)
  const order = first ? [first, ...ranked.filter((one) => one !== first)] : []
  return order.map(({ node, hasRoom }) => ({ node, hasRoom }))
}

/** A memory image needs a CPU that has every instruction of the CPU it was written on. */
function canRunOn(facts: NodeFacts, built: NodeFacts): boolean {
  if (facts.isolation !== built.isolation || facts.cpu.architecture !== built.cpu.architecture) return false
  const known = new Set(facts.cpu.features)
  return built.cpu.features.every((feature) => known.has(feature))
}

/** Compares each kind of machine once, because a cluster has many machines of few kinds. */
function createCanRun(built: NodeFacts): (facts: NodeFacts) => boolean {
  const byKind = new Map<string, boolean>()
  return (facts) => {
    const kind = kindOf(facts)
    const known = byKind.get(kind) ?? canRunOn(facts, built)
    byKind.set(kind, known)
    return known
  }
}

const kinds = new WeakMap<NodeFacts, string>()

/** Cached per facts object: joining the features takes longer than the rest of the ranking. */
function kindOf(facts: NodeFacts): string {
  const { isolation, cpu } = facts
  const kind = kinds.get(facts) ?? [isolation, cpu.architecture, ...cpu.features].join(' ')
  kinds.set(facts, kind)
  return kind
}

/** From 0 to 2. A warm sandbox ranks above bytes on the local disk. */
function tierOf({ nodeID, load }: ClusterNode, demand: PlacementDemand): number {
  if (load.warmTemplates.includes(demand.templateID)) return 2
  const isAtHand =
    demand.builder === nodeID || (demand.buildID !== undefined && load.buildsAtHand.includes(demand.buildID))
  return isAtHand ? 1 : 0
}

function roomOf({ load }: ClusterNode, sent: SentDemand): { cpu: number; memoryMB: number; gpus: number } {
  return {
    cpu: load.freeCPU - sent.cpuCount,
    memoryMB: load.freeMemoryMB - sent.memoryMB,
    gpus: (load.gpus?.free ?? 0) - (sent.gpuCount ?? 0),
  }
}

/** True if a sandbox of that node can ever have as many GPUs. */
export const hasGpusFor = (
  { load }: ClusterNode,
  { gpuCount = 0 }: Pick<PlacementDemand, 'gpuCount'>,
): boolean => gpuCount === 0 || (load.gpus?.mostPerSandbox ?? 0) >= gpuCount

/** The allocated share of the node's CPU or memory, whichever is larger. */
function fullnessOf({ load }: ClusterNode, sent: SentDemand): number {
  const share = (taken: number, free: number) => taken / Math.max(1, taken + free)
  const cpu = share(load.allocatedCPU + sent.cpuCount, load.freeCPU - sent.cpuCount)
  const memory = share(load.allocatedMemoryMB + sent.memoryMB, load.freeMemoryMB - sent.memoryMB)
  return Math.max(cpu, memory)
}

/**
 * The emptier of two nodes drawn at random, so that doors with the same reports do not all choose the same
 * node.
 */
function emptierOfTwo<T extends { fullness: number }>(
  best: readonly T[],
  drawBelow: (count: number) => number,
): T | undefined {
  if (best.length < 2) return best[0]
  const at = drawBelow(best.length)
  const [one, other] = [best[at]!, best[(at + 1 + drawBelow(best.length - 1)) % best.length]!]
  return one.fullness <= other.fullness ? one : other
}
