/** Ranks the nodes that may start a new sandbox, best first, by the last report of each node. */
import { type ClusterNode, isUnreachable, type NodeFacts } from './node.ts'

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

export type RankedNode = { node: ClusterNode; hasCapacity: boolean }

type RankingFacts = {
  sentTo: (nodeID: string) => SentDemand
  /** False if the last attempt of this node to reach the other one failed. */
  isReachable?: (node: ClusterNode) => boolean
  /** `drawBelow(n)` draws a random integer from 0 to n - 1. */
  drawBelow: (count: number) => number
}

/**
 * Nodes that this node cannot reach come last. The nodes after the first are sorted only for a caller that goes on to
 * them: hardly any create does, and to sort 1,000 nodes takes most of the ranking.
 */
export function rankNodes(
  nodes: readonly ClusterNode[],
  demand: PlacementDemand,
  facts: RankingFacts,
): Iterable<RankedNode> {
  const fitting = fittingNodes(nodes, demand)
  const first = emptierOfTwo(bestGraded(fitting, demand, facts), facts)
  return {
    *[Symbol.iterator]() {
      if (!first) return
      yield { node: first, hasCapacity: hasCapacityFor(first, demand, facts) }
      const others = fitting.filter((node) => node !== first)
      yield* sortByRank(others, demand, facts)
    },
  }
}

function fittingNodes(nodes: readonly ClusterNode[], demand: PlacementDemand): ClusterNode[] {
  const builder = nodes.find(({ nodeID }) => nodeID === demand.builder)
  const canRun = builder ? createCanRun(builder.facts) : () => true
  return nodes.filter(
    (node) =>
      !isUnreachable(node) &&
      node.status === 'ready' &&
      (!demand.isBound || node === builder) &&
      canRun(node.facts) &&
      hasGpusFor(node, demand),
  )
}

function bestGraded(fitting: readonly ClusterNode[], demand: PlacementDemand, facts: RankingFacts) {
  let best: ClusterNode[] = []
  let highest = Number.NEGATIVE_INFINITY
  for (const node of fitting) {
    const grade = gradeOf(node, demand, facts)
    if (grade > highest) {
      highest = grade
      best = []
    }
    if (grade === highest) best.push(node)
  }
  return best
}

function sortByRank(
  nodes: readonly ClusterNode[],
  demand: PlacementDemand,
  facts: RankingFacts,
): RankedNode[] {
  const graded = nodes.map((node) => ({
    node,
    hasCapacity: hasCapacityFor(node, demand, facts),
    grade: gradeOf(node, demand, facts),
    fullness: fullnessOf(node, facts.sentTo(node.nodeID)),
  }))
  graded.sort((a, b) => b.grade - a.grade || a.fullness - b.fullness)
  return graded.map(({ node, hasCapacity }) => ({ node, hasCapacity }))
}

/** Being reachable counts most, then capacity, then what the node has already. */
function gradeOf(node: ClusterNode, demand: PlacementDemand, facts: RankingFacts): number {
  const { isReachable = () => true } = facts
  return (isReachable(node) ? 20 : 0) + (hasCapacityFor(node, demand, facts) ? 10 : 0) + tierOf(node, demand)
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

function hasCapacityFor(
  { nodeID, load }: ClusterNode,
  demand: PlacementDemand,
  { sentTo }: RankingFacts,
): boolean {
  const sent = sentTo(nodeID)
  return (
    load.freeCPU - sent.cpuCount >= demand.cpuCount &&
    load.freeMemoryMB - sent.memoryMB >= demand.memoryMB &&
    (load.gpus?.free ?? 0) - (sent.gpuCount ?? 0) >= (demand.gpuCount ?? 0)
  )
}

/** True if a sandbox of that node can ever have as many GPUs. */
export const hasGpusFor = (
  { load }: ClusterNode,
  { gpuCount = 0 }: Pick<PlacementDemand, 'gpuCount'>,
): boolean => gpuCount === 0 || (load.gpus?.mostPerSandbox ?? 0) >= gpuCount

/** The allocated share of the node's CPU or memory, whichever is larger. */
function fullnessOf({ load }: ClusterNode, sent: SentDemand): number {
  const share = (used: number, free: number) => used / Math.max(1, used + free)
  const cpu = share(load.allocatedCPU + sent.cpuCount, load.freeCPU - sent.cpuCount)
  const memory = share(load.allocatedMemoryMB + sent.memoryMB, load.freeMemoryMB - sent.memoryMB)
  return Math.max(cpu, memory)
}

/**
 * The emptier of two nodes drawn at random, so that doors with the same reports do not all choose the same
 * node.
 */
function emptierOfTwo(
  best: readonly ClusterNode[],
  { sentTo, drawBelow }: RankingFacts,
): ClusterNode | undefined {
  if (best.length < 2) return best[0]
  const at = drawBelow(best.length)
  const [one, other] = [best[at]!, best[(at + 1 + drawBelow(best.length - 1)) % best.length]!]
  const fullness = (node: ClusterNode) => fullnessOf(node, sentTo(node.nodeID))
  return fullness(one) <= fullness(other) ? one : other
}
