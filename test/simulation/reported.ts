/** The answers that a client got about a created or resumed sandbox, and may rely on from then on. */

import type { Sandbox } from '../../src/core/sandbox/row/sandbox.ts'
import type { CreateRequest } from '../../src/core/sandbox/verbs/creator.ts'
import type { Team } from '../../src/core/team/team.ts'
import type { WantedMount } from '../../src/core/volume/volume.ts'
import { usualOptions } from '../../src/store/suite/rows.ts'
import type { Ask } from './ledger.ts'
import { shortID } from './parked-calls.ts'
import { createPlaced } from './placing.ts'
import { variablesOf, writtenKey } from './simulated-agent.ts'
import type { Core } from './simulated-node.ts'
import type { Simulation } from './simulation.ts'
import { Violation } from './violation.ts'

export type Asked = { simulation: Simulation; core: Core; team: Team; ask: Ask; askedAtStep: number }

export const wishOf = ({ timeoutMs, memory }: Ask) => ({ timeoutMs: timeoutMs || 1000, memory })
export const stillHeard = ({ simulation, ask }: Asked): boolean => simulation.ledger.underway.has(ask)
export const nowAt = ({ simulation, ask }: Asked): number => simulation.nodes[ask.node]!.wall.now()

/** The returned function tells the earliest time that the clock of the node has told since this call. */
export function earliestFromNow({ simulation, ask }: Asked): () => number {
  const [{ wall }, { elapsedMs }] = [simulation.nodes[ask.node]!, simulation.time]
  const at = wall.now()
  return () => wall.earliestSince({ elapsedMs, at })
}

/** Only this name, so that every connection goes to the gate. */
const byName = { allowOut: ['allowed.test'], denyOut: ['0.0.0.0/0'] }

export async function create(
  asked: Asked,
  template: string,
  claim?: { key: string; requestHash: string },
  volumeMounts: WantedMount[] = [],
): Promise<string> {
  const { core, team, ask, simulation } = asked
  const { autoPause, autoResume, timeoutMs } = ask
  const allowInternetAccess = simulation.plan.profile === 'egress policies' ? !ask.closed : null
  const request: CreateRequest = {
    template,
    timeoutMs: timeoutMs || 1000,
    envVars: variablesOf(team.teamID, ask.number),
    volumeMounts,
    metadata: { ask: String(ask.number), node: String(ask.node), ...(claim && { key: claim.key }) },
    options: {
      ...usualOptions,
      allowInternetAccess,
      network: simulation.plan.hasGate ? byName : null,
      autoPause,
      autoResume,
    },
  }
  const isPlaced = simulation.plan.isCluster && template === 'base' && volumeMounts.length === 0
  const sandbox = isPlaced
    ? await createPlaced(asked, request, claim)
    : await core.service.create(team, request, claim)
  checkOwn(asked, sandbox, claim?.key)
  return made(asked, sandbox)
}

/** A create is answered with the sandbox that this very request made, or that one with its key made earlier. */
function checkOwn(asked: Asked, { sandboxID, teamID, metadata }: Sandbox, key: string | undefined): void {
  const { simulation, team, ask } = asked
  const isOwn = key === undefined ? metadata.ask === String(ask.number) : metadata.key === key
  if (!stillHeard(asked) || (teamID === team.teamID && isOwn)) return
  const text = `#${ask.number} of ${team.teamID} was answered with ${shortID(sandboxID)}, which #${metadata.ask} of ${teamID} made`
  simulation.report(new Violation('own sandbox', text))
}

/** Nothing starts on a machine whose disk was full all the time. */
function checkAdmitted({ simulation, ask, askedAtStep }: Asked): void {
  const { fullSince, nodes, report } = simulation
  if ((fullSince.get(nodes[ask.node]!.name) ?? Number.POSITIVE_INFINITY) >= askedAtStep) return
  report(new Violation('admission', `#${ask.number} was started though the disk was full all the time`))
}

export function made(asked: Asked, sandbox: Sandbox): string {
  const { simulation, ask } = asked
  if (!stillHeard(asked)) return ''
  checkAdmitted(asked)
  const { sandboxID, teamID, endAt, runID } = sandbox
  const entry = simulation.ledger.learn(teamID, sandboxID, ask.node)
  const there = simulation.inWorld(sandboxID)
  if (there?.spec.runID === runID) {
    entry.written ??= there.files.get(writtenKey)
    entry.inMemory ??= there.memory.get(writtenKey)
  }
  const row = simulation.watch.sandboxes.get(sandboxID)
  // The end of a paused sandbox is that of its last run.
  if (row?.runID === runID && row.state !== 'paused')
    entry.reportedEnds.push({ endAt, askedAtStep: asked.askedAtStep })
  return sandboxID
}

export function reportEnd({ simulation, ask, askedAtStep }: Asked, endAt: number, step = askedAtStep): void {
  const row = simulation.watch.sandboxes.get(ask.sandboxID!)
  if (row?.state !== 'running') return
  simulation.ledger.entries.get(ask.sandboxID!)!.reportedEnds.push({ endAt, askedAtStep: step })
}

export function resumed(asked: Asked, sandbox: Sandbox, wasPaused: boolean): string {
  const { simulation } = asked
  if (!stillHeard(asked)) return ''
  const { sandboxID, runID, endAt } = sandbox
  const row = simulation.watch.sandboxes.get(sandboxID)!
  if (row.runID === runID && row.state === 'running') reportEnd(asked, endAt)
  if (simulation.ledger.killReported.has(sandboxID))
    simulation.report(
      new Violation('killed', `${shortID(sandboxID)} was resumed after a client was told that it is killed`),
    )
  return `${wasPaused ? 'resumed' : 'extended'} until ${endAt}`
}
