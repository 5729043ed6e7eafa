/** The requests of clients to each machine, until they are answered or given up. */
import type { Team } from '../../src/core/team/team.ts'
import { AppError, isAppError } from '../../src/lib/app-error.ts'
import { choose, chooseSnapshot } from './client-answers.ts'
import { type Door, findAnswerer } from './hops.ts'
import type { Ask } from './ledger.ts'
import { answers } from './other-answers.ts'
import { shortID } from './parked-calls.ts'
import type { Request, Verb } from './plan.ts'
import type { Asked } from './reported.ts'
import type { SimulatedNode } from './simulated-node.ts'
import type { Simulation } from './simulation.ts'
import { Violation } from './violation.ts'

/** Makes the request on the machine that has its sandbox. False: there is nothing that it could be about yet. */
export function makeRequest(simulation: Simulation, request: Request, number: number): boolean {
  const { ledger, teams, nodes } = simulation
  const team = teams[request.client % teams.length]!
  const asksFor = request.verb === 'ask as a stranger' ? teams.find((one) => one !== team) : team
  const known = ledger.known.get(asksFor?.teamID ?? '') ?? []
  const chosen = isAboutOne(request) ? choose(known, request.pick) : undefined
  const sandboxID = request.rush?.sandboxID ?? chosen
  if (isAboutOne(request) && sandboxID === undefined) return false
  const at = request.rush?.door ?? doorOf(simulation, request, team, sandboxID)
  const node = nodes[at]!
  if (!node.isUp || !node.core) return false
  const [{ process }, { teamID }, askedMs] = [node, team, simulation.time.elapsedMs]
  const ask: Ask = { ...request, number, node: at, process, teamID, askedMs, sandboxID }
  const asked = { simulation, core: node.core, team, ask, askedAtStep: simulation.step }
  simulation.note(() => `client ${request.client} of ${team.slug}: ${describeRequest(ask)}`)
  begin(asked)
  simulation.rates.seeRequest()
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
  { ledger, nodes, plan, watch }: Simulation,
  request: Request,
  team: Team,
  sandboxID: string | undefined,
): number {
  if (!plan.isCluster) {
    return sandboxID === undefined ? request.client % nodes.length : ledger.entries.get(sandboxID)!.node
  }
  // What a template was made of by a snapshot is on the disk of one node alone, and so is a volume.
  const snapshot = request.verb === 'create from a snapshot' && chooseSnapshot(ledger, team, request)
  if (snapshot && !plan.isStoredAnywhere) return ledger.snapshotNodes.get(snapshot)!
  if (request.verb.startsWith('recover') || request.verb.startsWith('discard')) {
    const entry = choose([...watch.quarantined.values()], request.pick)
    if (entry) return nodes.findIndex(({ name }) => name === entry.nodeID)
  }
  const volume =
    request.verb.endsWith(' volume') && choose(ledger.volumes.get(team.teamID) ?? [], request.pick)
  if (volume && request.verb !== 'create a volume') return volume.node
  const chosen = (request.client + Math.floor(request.pick * 1000)) % nodes.length
  // A node that looks elsewhere stores nothing.
  const isAstray = chosen === plan.otherPrefixNode && request.verb !== 'create from a snapshot'
  const wanted = isAstray ? (chosen + 1) % nodes.length : chosen
  if (nodes[wanted]!.isUp) return wanted
  const isUsable = ({ isUp }: SimulatedNode, at: number) => isUp && !(isAstray && at === plan.otherPrefixNode)
  const other = nodes.findIndex(isUsable)
  return other < 0 ? wanted : other
}

/** In a cluster the node that got it may not be the one that answers it. */
async function passOn(asked: Asked): Promise<string> {
  const { simulation, ask, core } = asked
  const { nodes, plan } = simulation
  const answer = answers[ask.verb]
  if (!plan.isCluster) return answer(asked)
  const answerer = await answererFor(asked, { node: nodes[ask.node]!, core })
  return answer({ ...asked, core: answerer.core }).catch(async (error) => {
    // As src/api does: another node may have it by now.
    const id = ask.sandboxID
    if (id === undefined || !isAppError(error, 'not_found')) throw error
    throw (await answerer.core.router.whyMissing({ kind: 'sandbox', id }, error)) ?? error
  })
}

async function answererFor(asked: Asked, door: Door): Promise<Door> {
  const { simulation, ask } = asked
  const { sandboxID, verb } = ask
  // The edge serves a sandbox that has a route without reading its row.
  if (verb === 'write' && door.core.routes.get(sandboxID!)) return door
  if (sandboxID !== undefined) return findAnswerer(simulation, door, ask, () => refuseStranger(asked, door))
  return door
}

/** Before a door takes a sandbox over, it looks who asks, and whether the sandbox is theirs, as src/api and src/edge do. */
async function refuseStranger({ team, ask }: Asked, { core }: Door): Promise<void> {
  if (ask.verb !== 'ask as a stranger') return
  if (ask.closed) throw new AppError('unauthenticated', 'Nobody is known by this key.')
  await core.service.show(team, ask.sandboxID!)
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
    // The door of a create goes on with another node.
    if (ask.process !== process && (ask.passedOnTo !== process || ask.isPlaced)) continue
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
    if (!isBetween || ask.process === ask.passedOnTo) continue
    if (ask.isPlaced) ask.onCut?.()
    else abandon(simulation, ask)
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

const isAboutOne = ({ verb }: Request): boolean => !verb.startsWith('create') && !aboutNone.includes(verb)

const aboutNone: readonly Verb[] = [
  ...(['list', 'delete a snapshot', 'prune', 'delete a volume'] as const),
  ...(['build', 'recover a snapshot', 'discard a snapshot', 'delete a webhook'] as const),
]

const describeRequest = ({ verb, sandboxID, timeoutMs, memory, key, number }: Ask): string =>
  `#${number} ${verb}${verb === 'create with a key' ? ` ${key}` : ''}${sandboxID ? ` ${sandboxID}` : ''}` +
  ` (${timeoutMs} ms${memory ? '' : ', without memory'})`

function begin({ simulation: { ledger }, ask, askedAtStep }: Asked): void {
  ledger.underway.add(ask)
  if (ask.verb.startsWith('create')) ledger.creates.set(ask.number, ask)
  const entry = ask.sandboxID === undefined ? undefined : ledger.entries.get(ask.sandboxID)!
  if (!entry) return
  if (ask.verb === 'kill') ledger.killAsked.add(entry.sandboxID)
  // From now on it is the client who wants it paused.
  if (ask.verb === 'pause') entry.migratesUntil = undefined
  if (ask.verb === 'set-timeout') entry.shortenedAtStep = askedAtStep
  if (ask.verb === 'set-network') entry.closed = undefined
  else if (ask.verb !== 'set-timeout') return
  for (const other of [...ledger.underway, ...ledger.unheard]) {
    if (other === ask || other.sandboxID !== ask.sandboxID || other.verb !== ask.verb) continue
    other.overlaps = true
    ask.overlaps = true
  }
}

/** False: the process died meanwhile, so nobody hears. */
function finish({ simulation, ask }: Asked, words: string): boolean {
  const { ledger } = simulation
  const isHeard = ledger.underway.delete(ask)
  ask.answeredMs ??= simulation.time.elapsedMs
  if (isHeard) ask.wasHeard = true
  if (!isHeard && !ledger.unheard.delete(ask)) return false
  if (isHeard) simulation.note(() => `client ${ask.client}: #${ask.number} ${ask.verb} ${words}`)
  const entry = ask.sandboxID === undefined ? undefined : ledger.entries.get(ask.sandboxID)
  if (entry && ask.verb === 'set-timeout')
    entry.shortenedAtStep = Math.max(entry.shortenedAtStep, simulation.step)
  return isHeard
}

function onError(asked: Asked, error: unknown): void {
  const { simulation, ask } = asked
  const { ledger, report } = simulation
  // It says that the client has to look.
  const isUnknown = isAppError(error) && error.slug === 'create_outcome_unknown'
  if (isUnknown) ledger.unknownCreates.add(ask.number)
  else if (ask.verb === 'create a volume') ledger.failedVolumes.add(ask.number)
  else if (ask.verb.startsWith('create') && ask.verb !== 'create a webhook') {
    ledger.failedCreates.add(ask.number)
    checkWhy(asked, error)
  }
  if (isAppError(error, 'not_found')) checkName(asked)
  if (isAppError(error) && !/cannot move from|has no handle|had not arrived/.test(error.message)) return
  const words = error instanceof Error ? `${error.stack}` : String(error)
  report(new Violation('error in words', `${describeRequest(ask)}: ${words}`))
}

/** What a client can name exists, until somebody ends it. */
function checkName({ simulation, ask }: Asked): void {
  const { ledger, watch, report } = simulation
  const row = ask.sandboxID === undefined ? undefined : watch.sandboxes.get(ask.sandboxID)
  if (!row || !['connect', 'resume'].includes(ask.verb) || ledger.killAsked.has(row.sandboxID)) return
  if (!['running', 'paused'].includes(row.state)) return
  report(
    new Violation(
      'name kept',
      `${describeRequest(ask)} was told that it does not exist, and it is ${row.state}`,
    ),
  )
}

/** A create never fails because of an id that nobody asked for, nor of a kill that nobody asked for. */
function checkWhy({ simulation, ask }: Asked, error: unknown): void {
  const { ledger, watch, report } = simulation
  if (isAppError(error, 'already_exists')) {
    const text = `${describeRequest(ask)} was told that it exists already`
    report(new Violation('own sandbox', text))
  }
  const isKilled =
    isAppError(error, 'conflict') && /was killed while it was being created/.test(error.message)
  if (!isKilled) return
  for (const { sandboxID, metadata } of watch.sandboxes.values()) {
    if (metadata.ask !== String(ask.number) || ledger.killAsked.has(sandboxID)) continue
    const text = `${describeRequest(ask)} was told that ${shortID(sandboxID)} was killed, and nobody asked for that`
    report(new Violation('answer true', text))
  }
}
