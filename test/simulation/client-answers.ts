/** How the machine that has the sandbox answers each request, and what the client may rely on from then on. */
import type { Team } from '../../src/core/team/team.ts'
import { isClosedBy } from './final-checks.ts'
import type { Ask, Ledger } from './ledger.ts'
import { shortID } from './parked-calls.ts'
import type { Request, Verb } from './plan.ts'
import {
  type Asked,
  create,
  earliestFromNow,
  made,
  reportEnd,
  resumed,
  stillHeard,
  wishOf,
} from './reported.ts'
import type { WatchedSandbox } from './row-watch.ts'
import { writtenKey } from './simulated-agent.ts'
import type { Core } from './simulated-node.ts'
import type { Simulation } from './simulation.ts'
import { Violation } from './violation.ts'

const shortestRefreshMs = 15_000

/** Mostly the newest, so that requests meet. */
export function choose<T>(list: readonly T[], pick: number): T | undefined {
  return pick < 0.6 ? list.at(-1) : list[Math.floor(((pick - 0.6) / 0.4) * list.length)]
}

export const chooseSnapshot = (
  { snapshots }: Ledger,
  { teamID }: Team,
  { pick }: Request,
): string | undefined => choose(snapshots.get(teamID) ?? [], pick)

/** By verb: how it is answered, and in which words for the trace. */
export type Answers = Record<Verb, (asked: Asked) => Promise<string>>

export const sandboxAnswers = {
  create: (asked) => create(asked, 'base'),

  async 'create with a key'(asked) {
    const { simulation, ask } = asked
    const claim = { key: ask.key, requestHash: ask.key }
    const words = await create(asked, 'base', claim)
    const known = `${ask.teamID} ${ask.key}`
    const sandboxID = words
    const earlier = simulation.ledger.keyed.get(known)
    if (earlier !== undefined && earlier !== sandboxID && stillHeard(asked)) {
      simulation.report(
        new Violation('idempotency', `${known} stands for ${shortID(earlier)} and for ${shortID(sandboxID)}`),
      )
    }
    if (stillHeard(asked)) simulation.ledger.keyed.set(known, sandboxID)
    return words
  },

  async 'create from a snapshot'(asked) {
    const { simulation, team, ask } = asked
    const snapshot = chooseSnapshot(simulation.ledger, team, ask)
    return create(asked, snapshot ?? 'base')
  },

  async kill(asked) {
    const { core, team, ask, simulation } = asked
    await core.service.kill(team, ask.sandboxID!)
    const state = simulation.watch.sandboxes.get(ask.sandboxID!)?.state
    if (state !== 'ended')
      simulation.report(new Violation('answer true', `a kill was answered, but it is ${state}`))
    if (stillHeard(asked)) simulation.ledger.killReported.add(ask.sandboxID!)
    return 'killed'
  },

  async pause({ core, team, ask, simulation }) {
    await core.service.pause(team, ask.sandboxID!, { memory: ask.memory, requireHealthyAgent: false })
    // Its client ends this run; one that a drain has paused has no end to keep any more.
    const row = simulation.watch.sandboxes.get(ask.sandboxID!)
    if (row?.state === 'paused') simulation.ledger.entries.get(ask.sandboxID!)!.reportedEnds = []
    return 'paused'
  },

  async resume(asked) {
    const { core, team, ask } = asked
    const { timeoutMs, memory } = wishOf(ask)
    return resumed(asked, await core.service.resume(team, ask.sandboxID!, { timeoutMs, memory }), true)
  },

  async connect(asked) {
    const { core, team, ask } = asked
    const { sandbox, resumed: wasPaused } = await core.service.connect(team, ask.sandboxID!, wishOf(ask))
    return resumed(asked, sandbox, wasPaused)
  },

  async wake({ core, ask }) {
    const route = await core.findResumable(ask.sandboxID!)
    if (!route) return 'is not to be woken'
    await route.wake()
    return 'is awake'
  },

  async 'set-timeout'(asked) {
    const { core, team, ask, simulation } = asked
    const earliest = earliestFromNow(asked)
    await core.service.setTimeout(team, ask.sandboxID!, ask.timeoutMs)
    if (!stillHeard(asked)) return ''
    const entry = simulation.ledger.entries.get(ask.sandboxID!)!
    entry.reportedEnds = []
    // From the next step on: this request itself is no reason for an earlier end. Of two that overlap, either may be the last.
    if (!ask.overlaps) reportEnd(asked, earliest() + ask.timeoutMs, simulation.step + 1)
    return 'done'
  },

  async refresh(asked) {
    const { core, team, ask } = asked
    const earliest = earliestFromNow(asked)
    await core.service.refresh(team, ask.sandboxID!, ask.timeoutMs)
    reportEnd(asked, earliest() + Math.max(ask.timeoutMs, shortestRefreshMs))
    return 'done'
  },

  async fork(asked) {
    const { core, team, ask } = asked
    const outcomes = await core.service.fork(team, ask.sandboxID!, {
      timeoutMs: ask.timeoutMs || 1000,
      count: ask.count,
    })
    return outcomes.map((one) => ('sandbox' in one ? made(asked, one.sandbox) : `(${one.error})`)).join(', ')
  },

  async snapshot({ core, team, ask, simulation }) {
    const { snapshotID } = await core.service.snapshot(team, ask.sandboxID!, { memory: ask.memory })
    const { snapshots, snapshotNodes } = simulation.ledger
    snapshotNodes.set(snapshotID, ask.node)
    snapshots.set(team.teamID, [...(snapshots.get(team.teamID) ?? []), snapshotID])
    return snapshotID
  },

  async 'set-network'(asked) {
    const { core, team, ask, simulation } = asked
    await core.service.setNetwork(team, ask.sandboxID!, { allowInternetAccess: !ask.closed })
    const entry = simulation.ledger.entries.get(ask.sandboxID!)!
    if (!stillHeard(asked)) return ''
    // Of two that overlap, either may be the last.
    if (!ask.overlaps) {
      entry.closed = ask.closed
      checkPolicy(simulation, ask)
    }
    return ask.closed ? 'closed' : 'open'
  },

  async list({ core, team, simulation, ask }) {
    const filter = {
      teamID: team.teamID,
      states: ['running', 'snapshotting', 'pausing', 'paused', 'resuming'] as const,
    }
    const rows = await core.service.list(filter, { order: 'asc', limit: 100 })
    for (const { sandboxID } of rows) simulation.ledger.learn(team.teamID, sandboxID, ask.node)
    return rows.map(({ sandboxID }) => sandboxID).join(' ') || 'none'
  },

  async 'delete a snapshot'({ core, team, ask, simulation }) {
    const { snapshots } = simulation.ledger
    const known = snapshots.get(team.teamID) ?? []
    const snapshot = choose(known, ask.pick)
    if (!snapshot) return 'there is none'
    await core.remover.remove(team, snapshot)
    snapshots.set(
      team.teamID,
      known.filter((one) => one !== snapshot),
    )
    return `deleted ${snapshot}`
  },

  async prune({ core }) {
    await core.pruner.run({ before: Number.MAX_SAFE_INTEGER, dryRun: false })
    await core.objectStorage?.sweeper.run()
    return 'done'
  },

  async write({ simulation, ask, core: { routes } }) {
    const { plan } = simulation
    const row = simulation.watch.sandboxes.get(ask.sandboxID!)
    const sandbox = plan.isCluster
      ? answeringCopy(simulation, ask, routes, row)
      : simulation.inWorld(ask.sandboxID!)
    if (
      row?.state !== 'running' ||
      !sandbox?.running ||
      sandbox.frozen ||
      sandbox.spec.runID !== row.startedRunID
    )
      return 'not running'
    const text = `write ${ask.number}`
    sandbox.memory.set(writtenKey, text)
    sandbox.files.set(writtenKey, text)
    const entry = simulation.ledger.entries.get(ask.sandboxID!)!
    entry.written = text
    entry.inMemory = text
    return text
  },
} satisfies Partial<Answers>

/** The sandbox to which the answering node routes traffic; it must be the sandbox of the row. */
function answeringCopy(
  simulation: Simulation,
  { node: at, sandboxID }: Ask,
  routes: Core['routes'],
  row: WatchedSandbox | undefined,
) {
  const node = simulation.nodes[at]!
  if (!routes.get(sandboxID!) || node.oldCopies.has(sandboxID!)) return undefined
  const isElsewhere = row && row.state !== 'ended' && row.nodeID !== node.name
  if (isElsewhere) {
    simulation.report(
      new Violation('one copy', `${node.name} answers for ${shortID(sandboxID!)}, which is ${row.nodeID}'s`),
    )
  }
  return node.world.sandboxes.get(sandboxID!)
}

/** What the client was told holds from the answer on, whatever is written down. */
function checkPolicy(simulation: Simulation, { sandboxID, closed }: Ask): void {
  const row = simulation.watch.sandboxes.get(sandboxID!)
  const there = simulation.inWorld(sandboxID!)
  if (row?.state !== 'running' || !there?.running || there.spec.runID !== row.startedRunID) return
  if (isClosedBy(there.enforced) === closed) return
  const text = `${shortID(sandboxID!)} is ${closed ? 'open' : 'closed'}, and its client was just told otherwise`
  simulation.report(new Violation('egress policy', text))
}
