/** Lets traffic wake a paused sandbox, where its team wanted that. Who may is for the edge to check. */
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { SandboxStore, TeamStore } from '../stores.ts'
import { sandboxIsBusy, sandboxNotFound } from './errors.ts'
import { longestLifetime } from './lifetime.ts'
import type { FindResumable } from './resumable-route.ts'
import type { Route, RouteTable } from './routes.ts'
import { type Sandbox, wireStates } from './sandbox.ts'
import type { SandboxService } from './service.ts'
import type { SandboxTokens } from './tokens.ts'

const shortestLifeMs = 300_000

export type AutoResumeParts = {
  service: SandboxService
  sandboxes: SandboxStore
  teams: TeamStore
  routes: RouteTable
  tokens: SandboxTokens
}

export function createAutoResume(parts: AutoResumeParts): FindResumable {
  const { sandboxes, tokens } = parts
  const waking = new JoinedWork<Route>()
  return async (sandboxID) => {
    const row = await sandboxes.find(sandboxID)
    if (!row || !mayWake(row)) return undefined
    return {
      sandboxID,
      agentToken: tokens.agentOf(row),
      trafficToken: tokens.trafficOf(row),
      wake: () => waking.run(sandboxID, () => wake(parts, row)),
    }
  }
}

/** What a pause kept without memory does not hold the service that the traffic is for. */
function mayWake({ state, options, snapshot }: Sandbox): boolean {
  const isPaused = wireStates.paused.some((one) => one === state)
  return isPaused && options.autoResume && snapshot?.memory !== false
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
