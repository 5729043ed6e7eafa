/** What clients ask for, and what they may rely on once they were answered. */
import type { CreateRequest } from '../../src/core/sandbox/creator.ts'
import type { Sandbox } from '../../src/core/sandbox/sandbox.ts'
import type { Team } from '../../src/core/team/team.ts'
import { isAppError } from '../../src/lib/app-error.ts'
import { type Door, findAnswerer, reach } from './hops.ts'
import type { Ask, Ledger } from './ledger.ts'
import { shortID } from './parked-calls.ts'
import type { Request } from './plan.ts'
import type { WatchedSandbox } from './row-watch.ts'
import { type Core, writtenKey } from './simulated-node.ts'
import type { Simulation } from './simulation.ts'
import { Violation } from './violation.ts'

const shortestRefreshMs = 15_000

type Asked = { simulation: Simulation; core: Core; team: Team; ask: Ask; askedAtStep: number }

/** Makes the request on the machine that has its sandbox. False: there is nothing that it could be about yet. */
export function makeRequest(simulation: Simulation, request: Request, number: number): boolean {
  const { ledger, teams, nodes } = simulation
  const team = teams[request.client % teams.length]!
  const chosen = isAboutOne(request) ? choose(ledger.known.get(team.teamID) ?? [], request.pick) : undefined
  const sandboxID = request.rush?.sandboxID ?? chosen
  if (isAboutOne(request) && sandboxID === undefined) return false
  const at = request.rush?.door ?? doorOf(simulation, request, team, sandboxID)
  const node = nodes[at]!
  if (!node.isUp || !node.core) return false
  const ask: Ask = { ...request, number, node: at, process: node.process, teamID: team.teamID, sandboxID }
  const asked = { simulation, core: node.core, team, ask, askedAtStep: simulation.step }
  simulation.note(() => `client ${request.client} of ${team.slug}: ${describeRequest(ask)}`)
  begin(asked)
  passOn(asked).then(
    (words) => finish(asked, `answered: ${words}`),
    (error: unknown) => {
      if (finish(asked, `answered with an error: ${error instanceof Error ? error.message : error}`))
        onError(asked, error)
    },
  )
  return true
}

/** In a cluster any node that is up; otherwise the one that has the sandbox. */
function doorOf(
  { ledger, nodes, plan }: Simulation,
  request: Request,
  team: Team,
  sandboxID: string | undefined,
): number {
  if (!plan.isCluster) {
    return sandboxID === undefined ? request.client % nodes.length : ledger.entries.get(sandboxID)!.node
  }
  // What a template was made of by a snapshot is on the disk of one node alone.
  const snapshot = request.verb === 'create from a snapshot' && chooseSnapshot(ledger, team, request)
  if (snapshot) return ledger.snapshotNodes.get(snapshot)!
  const wanted = (request.client + Math.floor(request.pick * 1000)) % nodes.length
  return nodes[wanted]!.isUp
    ? wanted
    : Math.max(
        0,
        nodes.findIndex(({ isUp }) => isUp),
      )
}

/** In a cluster the node that got it may not be the one that answers it. */
async function passOn(asked: Asked): Promise<string> {
  const { simulation, ask, core } = asked
  const { nodes, plan } = simulation
  const answer = answers[ask.verb]
  if (!plan.isCluster) return answer(asked)
  const answerer = await answererFor(asked, { node: nodes[ask.node]!, core })
  return answer({ ...asked, core: answerer.core })
}

async function answererFor({ simulation, ask }: Asked, door: Door): Promise<Door> {
  const { sandboxID, verb } = ask
  // The edge serves what it has a route for without a look at the row.
  if (verb === 'write' && door.core.routes.get(sandboxID!)) return door
  if (sandboxID !== undefined) return findAnswerer(simulation, door, ask)
  if (verb !== 'create with a key') return door
  const nodeID = await door.core.claims.nodeOfClaim(ask.teamID, ask.key)
  if (nodeID === undefined || nodeID === door.node.name) return door
  const peer = await reach(simulation, door.node, nodeID)
  ask.node = simulation.nodes.indexOf(peer.node)
  ask.passedOnTo = peer.node.process
  return peer
}

/** Every door is asked at once for the same paused sandbox. */
export function rushFor(simulation: Simulation, sandboxID: string): void {
  const { teams, nodes, watch } = simulation
  const client = teams.findIndex(({ teamID }) => teamID === watch.sandboxes.get(sandboxID)!.teamID)
  nodes.forEach((_, door) => {
    const wish = { verb: 'connect', timeoutMs: 300_000, memory: true, rush: { sandboxID, door } } as const
    const rest = { pick: 0, autoPause: false, autoResume: false, closed: false, count: 1, key: '' }
    makeRequest(simulation, { ...rest, ...wish, client }, simulation.nextRush++)
  })
}

/** A crash: the clients of that process never hear. What it passed on is carried out all the same. */
export function abandonRequests(simulation: Simulation, process: number, hasLate: boolean): void {
  const { ledger } = simulation
  const isCarriedOut = ({ process: heardBy, passedOnTo }: Ask) => (passedOnTo ?? heardBy) === process
  if (!hasLate) for (const ask of ledger.unheard) if (isCarriedOut(ask)) ledger.unheard.delete(ask)
  for (const ask of ledger.underway) {
    if (ask.process !== process && ask.passedOnTo !== process) continue
    abandon(simulation, ask)
    // Its statements may take effect all the same.
    if (!isCarriedOut(ask)) continue
    if (hasLate) ledger.unheard.add(ask)
    else ledger.unheard.delete(ask)
  }
}

/** Nothing goes between two nodes any more: what one has passed on to the other is never answered. */
export function abandonHops(simulation: Simulation, processes: readonly number[]): void {
  for (const ask of simulation.ledger.underway) {
    const isBetween = [ask.process, ask.passedOnTo].every((one) => processes.includes(one ?? -1))
    if (isBetween && ask.process !== ask.passedOnTo) abandon(simulation, ask)
  }
}

function abandon({ ledger, note, step }: Simulation, ask: Ask): void {
  ledger.underway.delete(ask)
  if (ask.passedOnTo !== undefined) ledger.unheard.add(ask)
  note(() => `client ${ask.client}: ${describeRequest(ask)} is never answered`)
  const entry = ask.sandboxID === undefined ? undefined : ledger.entries.get(ask.sandboxID)
  if (entry && ask.verb === 'set-timeout') entry.shortenedAtStep = step
  if (entry && ask.verb === 'set-network') entry.closed = undefined
}

const isAboutOne = ({ verb }: Request): boolean =>
  !verb.startsWith('create') && !['list', 'delete a snapshot', 'prune'].includes(verb)

/** Mostly the newest, so that requests meet. */
function choose<T>(list: readonly T[], pick: number): T | undefined {
  return pick < 0.6 ? list.at(-1) : list[Math.floor(((pick - 0.6) / 0.4) * list.length)]
}

const chooseSnapshot = ({ snapshots }: Ledger, { teamID }: Team, { pick }: Request): string | undefined =>
  choose(snapshots.get(teamID) ?? [], pick)

const describeRequest = ({ verb, sandboxID, timeoutMs, memory, key, number }: Ask): string =>
  `#${number} ${verb}${verb === 'create with a key' ? ` ${key}` : ''}${sandboxID ? ` ${sandboxID}` : ''}` +
  ` (${timeoutMs} ms${memory ? '' : ', without memory'})`

function begin({ simulation: { ledger }, ask, askedAtStep }: Asked): void {
  ledger.underway.add(ask)
  const entry = ask.sandboxID === undefined ? undefined : ledger.entries.get(ask.sandboxID)!
  if (!entry) return
  if (ask.verb === 'kill') ledger.killAsked.add(entry.sandboxID)
  if (ask.verb === 'set-timeout') entry.shortenedAtStep = askedAtStep
  if (ask.verb !== 'set-network') return
  entry.closed = undefined
  for (const other of [...ledger.underway, ...ledger.unheard]) {
    if (other === ask || other.sandboxID !== ask.sandboxID || other.verb !== 'set-network') continue
    other.overlaps = true
    ask.overlaps = true
  }
}

/** False: the process died meanwhile, so nobody hears. */
function finish({ simulation, ask }: Asked, words: string): boolean {
  const { ledger } = simulation
  const isHeard = ledger.underway.delete(ask)
  if (!isHeard && !ledger.unheard.delete(ask)) return false
  if (isHeard) simulation.note(() => `client ${ask.client}: #${ask.number} ${ask.verb} ${words}`)
  const entry = ask.sandboxID === undefined ? undefined : ledger.entries.get(ask.sandboxID)
  if (entry && ask.verb === 'set-timeout')
    entry.shortenedAtStep = Math.max(entry.shortenedAtStep, simulation.step)
  return isHeard
}

function onError({ simulation, ask }: Asked, error: unknown): void {
  if (ask.verb.startsWith('create')) simulation.ledger.failedCreates.add(ask.number)
  if (isAppError(error) && !/cannot move from|has no handle/.test(error.message)) return
  const words = error instanceof Error ? `${error.stack}` : String(error)
  simulation.report(new Violation('error in words', `${describeRequest(ask)}: ${words}`))
}

const answers: Record<Request['verb'], (asked: Asked) => Promise<string>> = {
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
    simulation.ledger.keyed.set(known, sandboxID)
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
    return 'killed'
  },

  async pause(asked) {
    const { core, team, ask, simulation } = asked
    await core.service.pause(team, ask.sandboxID!, { memory: ask.memory, requireHealthyAgent: false })
    const row = simulation.watch.sandboxes.get(ask.sandboxID!)!
    if (
      row.state === 'paused' &&
      row.snapshot?.memory !== ask.memory &&
      !simulation.ledger.isAsked(row.sandboxID, 'resume', 'connect', 'wake')
    ) {
      simulation.report(
        new Violation(
          'answer true',
          `a pause with memory ${ask.memory} kept ${JSON.stringify(row.snapshot)}`,
        ),
      )
    }
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
    const before = nowAt(asked)
    await core.service.setTimeout(team, ask.sandboxID!, ask.timeoutMs)
    if (!stillHeard(asked)) return ''
    const entry = simulation.ledger.entries.get(ask.sandboxID!)!
    entry.toldEnds = []
    // From the next step on: this request itself is no reason for an earlier end.
    tellEnd(asked, Math.min(before, nowAt(asked)) + ask.timeoutMs, simulation.step + 1)
    return 'done'
  },

  async refresh(asked) {
    const { core, team, ask } = asked
    const before = nowAt(asked)
    await core.service.refresh(team, ask.sandboxID!, ask.timeoutMs)
    tellEnd(asked, Math.min(before, nowAt(asked)) + Math.max(ask.timeoutMs, shortestRefreshMs))
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
    // Of two that overlap, either may be the last.
    if (stillHeard(asked) && !ask.overlaps) entry.closed = ask.closed
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
    await core.archive?.sweeper.run()
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
}

/** What the edge of the answering node sends the traffic to, which must be the one that the row stands for. */
function answeringCopy(
  simulation: Simulation,
  { node: at, sandboxID }: Ask,
  routes: Core['routes'],
  row: WatchedSandbox | undefined,
) {
  const node = simulation.nodes[at]!
  if (!routes.get(sandboxID!)) return undefined
  const isElsewhere = row && row.state !== 'ended' && row.nodeID !== node.name
  if (isElsewhere) {
    simulation.report(
      new Violation('one copy', `${node.name} answers for ${shortID(sandboxID!)}, which is ${row.nodeID}'s`),
    )
  }
  return node.world.sandboxes.get(sandboxID!)
}

const wishOf = ({ timeoutMs, memory }: Ask) => ({ timeoutMs: timeoutMs || 1000, memory })
const stillHeard = ({ simulation, ask }: Asked): boolean => simulation.ledger.underway.has(ask)
const nowAt = ({ simulation, ask }: Asked): number => simulation.nodes[ask.node]!.wall.now()

async function create(
  asked: Asked,
  template: string,
  claim?: { key: string; requestHash: string },
): Promise<string> {
  const { core, team, ask } = asked
  const { autoPause, autoResume, timeoutMs } = ask
  const request: CreateRequest = {
    ...{ template, timeoutMs: timeoutMs || 1000, envVars: {} },
    metadata: { ask: String(ask.number), node: String(ask.node), ...(claim && { key: claim.key }) },
    options: {
      ...{ allowInternetAccess: null, network: null, secure: true },
      ...{ autoPause, autoPauseMemory: true, autoResume },
    },
  }
  return made(asked, await core.service.create(team, request, claim))
}

function made(asked: Asked, sandbox: Sandbox): string {
  const { simulation, ask } = asked
  if (!stillHeard(asked)) return ''
  const { sandboxID, teamID, endAt, runID } = sandbox
  const entry = simulation.ledger.learn(teamID, sandboxID, ask.node)
  const there = simulation.inWorld(sandboxID)
  if (there?.spec.runID === runID) {
    entry.written ??= there.files.get(writtenKey)
    entry.inMemory ??= there.memory.get(writtenKey)
  }
  if (simulation.watch.sandboxes.get(sandboxID)?.runID === runID)
    entry.toldEnds.push({ endAt, askedAtStep: asked.askedAtStep })
  return sandboxID
}

function tellEnd({ simulation, ask, askedAtStep }: Asked, endAt: number, step = askedAtStep): void {
  const row = simulation.watch.sandboxes.get(ask.sandboxID!)
  if (row?.state !== 'running') return
  simulation.ledger.entries.get(ask.sandboxID!)!.toldEnds.push({ endAt, askedAtStep: step })
}

function resumed(asked: Asked, sandbox: Sandbox, wasPaused: boolean): string {
  const { simulation, ask } = asked
  if (!stillHeard(asked)) return ''
  const { sandboxID, runID, endAt } = sandbox
  const entry = simulation.ledger.entries.get(sandboxID)!
  const row = simulation.watch.sandboxes.get(sandboxID)!
  if (row.runID === runID && row.state === 'running') tellEnd(asked, endAt)
  const there = simulation.inWorld(sandboxID)
  const isThere = row.runID === runID && there?.spec.runID === row.startedRunID
  if (wasPaused && isThere && !simulation.ledger.died.has(row.startedRunID)) {
    const [memory, files] = [there.memory.get(writtenKey), there.files.get(writtenKey)]
    if (files !== entry.written) {
      simulation.report(
        new Violation(
          'content kept',
          `${shortID(sandboxID)} has ${files} in its files, not ${entry.written}`,
        ),
      )
    }
    // Another client may have written since it runs again and before this one heard of it.
    const expected = [entry.resumesMemory, entry.inMemory]
    if (ask.memory && entry.resumesMemory && !expected.includes(memory)) {
      simulation.report(
        new Violation(
          'content kept',
          `${shortID(sandboxID)} was resumed with ${memory} in its memory, not ${entry.resumesMemory}`,
        ),
      )
    }
  }
  return `${wasPaused ? 'resumed' : 'extended'} until ${endAt}`
}
