/** Lets traffic wake a paused sandbox if its team wants that. The edge checks whether a caller may. */
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { TeamStore } from '../team/team-store.ts'
import type { FindDemand, FindResumable } from './network/resumable-route.ts'
import type { Route, RouteTable } from './network/routes.ts'
import { sandboxIsBusy, sandboxNotFound } from './row/errors.ts'
import { longestLifetime } from './row/lifetime.ts'
import { isVisible, type Sandbox, wireStates } from './row/sandbox.ts'
import type { SandboxFinder, SandboxReader } from './row/sandbox-store.ts'
import type { SandboxTurns } from './row/sandbox-turns.ts'
import type { SandboxTokens } from './row/tokens.ts'
import type { SandboxService } from './service.ts'

const shortestLifeMs = 300_000

type AutoResumeParts = {
  service: SandboxService
  sandboxes: SandboxReader
  teams: TeamStore
  routes: RouteTable
  turns: Pick<SandboxTurns, 'finished'>
  tokens: SandboxTokens
}

export function createAutoResume(parts: AutoResumeParts): FindResumable {
  const { sandboxes, routes, turns, tokens } = parts
  const waking = new JoinedWork<Route>()
  return async (sandboxID) => {
    const row = await sandboxes.find(sandboxID)
    if (!row) return undefined
    // A resume moves the row before it opens the route. Whoever asks in between must not be told that there is no sandbox.
    if (row.state === 'running' && !routes.get(sandboxID)) await turns.finished(sandboxID)
    if (!mayWake(row)) return undefined
    return {
      sandboxID,
      ...demandOf(row, tokens),
      wake: () => waking.run(sandboxID, () => wake(parts, row)),
    }
  }
}

/**
 * Also finds a sandbox of another node: the edge must know who may wake it before this node takes it over.
 */
export function createFindDemand(parts: {
  owners: Pick<SandboxFinder, 'findSandbox'>
  tokens: SandboxTokens
}): FindDemand {
  const { owners, tokens } = parts
  return async (sandboxID) => {
    const row = await owners.findSandbox(sandboxID)
    if (!row || !isVisible(row.state)) return undefined
    return { ...demandOf(row, tokens), isPaused: isPaused(row), mayWake: mayWake(row) }
  }
}

const demandOf = (row: Sandbox, tokens: SandboxTokens) => ({
  agentToken: tokens.agentOf(row),
  trafficToken: tokens.trafficOf(row),
  hostToken: tokens.hostOf(row),
})

const isPaused = ({ state }: Sandbox): boolean => wireStates.paused.some((one) => one === state)

/** A snapshot without memory does not hold the service that the traffic is for. */
function mayWake(row: Sandbox): boolean {
  return isPaused(row) && row.options.autoResume && row.snapshot?.memory !== false
}

async function wake({ service, teams, routes }: AutoResumeParts, row: Sandbox): Promise<Route> {
  const { sandboxID, teamID } = row
  const team = await teams.findTeam(teamID)
  if (!team) throw sandboxNotFound(sandboxID)
  const timeoutMs = Math.min(Math.max(row.timeoutMs, shortestLifeMs), longestLifetime(team.limits))
  await service.connect(team, sandboxID, { timeoutMs, memory: true })
  const route = routes.get(sandboxID)
  if (!route) throw sandboxIsBusy(sandboxID, 'changing')
  return route
}
