/** Calls the operator's API of a running server. */
import { header } from '../contract/constants.ts'
import type { BuiltInAnswer } from '../contract/rest/built-in.ts'
import type { LostVolumeEntry, RecoveredVolume } from '../contract/rest/lost-volume.ts'
import type { MachineReport } from '../contract/rest/machine.ts'
import type { ForgottenNode, Node } from '../contract/rest/node.ts'
import type { PruneReport } from '../contract/rest/prune.ts'
import type { QuarantineEntry, RecoveredSandbox } from '../contract/rest/quarantine.ts'
import type { SharesReport } from '../contract/rest/shares.ts'
import type { CreatedLink, Team } from '../contract/rest/team.ts'
import type { BuildStatusAnswer } from '../contract/rest/template.ts'
import type { UsageReport, UsedBudget } from '../contract/rest/usage.ts'
import type { Volume } from '../contract/rest/volume.ts'
import { AppError } from '../lib/app-error.ts'
import type { ServerAddress } from '../lib/server-request.ts'
import { callServer } from './http-call.ts'

export type ServerAccess = ServerAddress & { adminToken: string }

export type BudgetChanges = Partial<UsedBudget['limits']>
export type LimitChanges = Partial<Team['limits']>

const pruneWithinMs = 1_800_000
const deleteWithinMs = 600_000

type CallOptions = { body?: unknown; withinMs?: number; teamID?: string }

export class AdminClient {
  readonly #access: ServerAccess

  constructor(access: ServerAccess) {
    this.#access = access
  }

  listTeams(): Promise<Team[]> {
    return this.#call('GET', '/admin/teams')
  }

  createTeam(name: string): Promise<Team> {
    return this.#call('POST', '/admin/teams', { body: { name } })
  }

  /** With `force` the server kills sandboxes one by one, so the time limit is generous. */
  deleteTeam(teamID: string, force: boolean): Promise<void> {
    const path = `/admin/teams/${encodeURIComponent(teamID)}?force=${force}`
    return this.#call('DELETE', path, { withinMs: deleteWithinMs })
  }

  changeLimits(teamID: string, changes: LimitChanges): Promise<Team> {
    return this.#call('PATCH', `/admin/teams/${encodeURIComponent(teamID)}/limits`, { body: changes })
  }

  /** Without a team: of all teams. */
  readUsage(
    teamID: string | undefined,
    asked: Record<string, string>,
  ): Promise<Partial<UsageReport> & Pick<UsageReport, 'from' | 'to' | 'days'>> {
    return this.#call('GET', usagePath(teamID, asked), { ...(teamID !== undefined && { teamID }) })
  }

  changeBudget(teamID: string, changes: BudgetChanges): Promise<UsedBudget> {
    return this.#call('PATCH', `/admin/teams/${encodeURIComponent(teamID)}/budget`, { body: changes })
  }

  allowOlderClients(teamID: string, olderClients: boolean): Promise<Team> {
    return this.#call('PATCH', `/admin/teams/${encodeURIComponent(teamID)}`, { body: { olderClients } })
  }

  createLink(teamID: string): Promise<CreatedLink> {
    return this.#call('POST', `/admin/teams/${encodeURIComponent(teamID)}/dashboard-links`)
  }

  listVolumes(teamID: string): Promise<Volume[]> {
    return this.#call('GET', '/volumes', { teamID })
  }

  createVolume(teamID: string, name: string): Promise<Volume> {
    return this.#call('POST', '/volumes', { teamID, body: { name } })
  }

  deleteVolume(teamID: string, volumeID: string): Promise<void> {
    return this.#call('DELETE', `/volumes/${encodeURIComponent(volumeID)}`, { teamID })
  }

  listLostVolumes(): Promise<LostVolumeEntry[]> {
    return this.#call('GET', '/admin/lost-volumes')
  }

  recoverVolume(volumeID: string, name: string | undefined): Promise<RecoveredVolume> {
    return this.#call('POST', `/admin/lost-volumes/${encodeURIComponent(volumeID)}/recover`, {
      body: name === undefined ? {} : { name },
    })
  }

  /** Pruning depends on the disk's speed, so the time limit is generous. */
  prune(dryRun: boolean): Promise<PruneReport> {
    return this.#call('POST', '/admin/prune', { body: { dryRun }, withinMs: pruneWithinMs })
  }

  addBuiltIn(name: string, full: boolean): Promise<BuiltInAnswer> {
    return this.#call('POST', `/admin/built-in-templates/${encodeURIComponent(name)}`, { body: { full } })
  }

  builtInStatus(name: string, logsOffset: number): Promise<BuildStatusAnswer> {
    return this.#call('GET', `/admin/built-in-templates/${encodeURIComponent(name)}?logsOffset=${logsOffset}`)
  }

  listQuarantine(): Promise<QuarantineEntry[]> {
    return this.#call('GET', '/admin/quarantine')
  }

  recover(snapshotName: string): Promise<RecoveredSandbox> {
    return this.#call('POST', `/admin/quarantine/${encodeURIComponent(snapshotName)}/recover`)
  }

  removeQuarantined(snapshotName: string): Promise<void> {
    return this.#call('DELETE', `/admin/quarantine/${encodeURIComponent(snapshotName)}`)
  }

  describeMachine(): Promise<MachineReport> {
    return this.#call('GET', '/admin/machine')
  }

  readShares(): Promise<SharesReport> {
    return this.#call('GET', '/admin/shares')
  }

  listNodes(): Promise<Node[]> {
    return this.#call('GET', '/nodes')
  }

  setNodeStatus(nodeID: string, status: 'ready' | 'draining'): Promise<void> {
    return this.#call('POST', `/nodes/${encodeURIComponent(nodeID)}`, { body: { status } })
  }

  forgetNode(nodeID: string): Promise<ForgottenNode> {
    return this.#call('DELETE', `/admin/nodes/${encodeURIComponent(nodeID)}`)
  }

  /** Finds a node by its ID, a prefix of it, or its address with or without the port. */
  async findNode(word: string): Promise<Node> {
    const nodes = await this.listNodes()
    const host = (address = '') => address.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
    const found = nodes.filter(
      ({ id, address }) => id.startsWith(word) || [address, host(address)].includes(word),
    )
    if (found.length === 1) return found[0]!
    const known = nodes.map(({ id }) => id).join(', ')
    const why = found.length === 0 ? 'no node has this name' : 'several nodes match this name'
    throw new AppError('not_found', `'${word}': ${why}. The nodes are: ${known}.`)
  }

  /** Finds a team by slug, ID or name, because a person may know any of them. */
  async findTeam(word: string): Promise<Team> {
    const teams = await this.listTeams()
    const found =
      teams.find((team) => team.slug === word || team.teamID === word) ??
      teams.find((team) => team.name === word)
    if (found) return found
    const known = teams.map((team) => team.slug).join(', ')
    throw new AppError('not_found', `There is no team '${word}'. The teams are: ${known || '(none)'}.`)
  }

  /** With a team, the operator makes the request on behalf of that team. */
  #call<T>(method: string, target: string, more: CallOptions = {}): Promise<T> {
    const { body, withinMs, teamID } = more
    const headers = {
      [header.adminToken]: this.#access.adminToken,
      ...(teamID !== undefined && { [header.teamID]: teamID }),
    }
    return callServer(this.#access, {
      method,
      target,
      headers,
      ...(body !== undefined && { body: { json: body } }),
      ...(withinMs !== undefined && { withinMs }),
    })
  }
}

function usagePath(teamID: string | undefined, asked: Record<string, string>): string {
  const path = teamID === undefined ? '/admin/usage' : `/teams/${encodeURIComponent(teamID)}/usage`
  return Object.keys(asked).length > 0 ? `${path}?${new URLSearchParams(asked)}` : path
}
