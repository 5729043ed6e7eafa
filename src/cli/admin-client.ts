/** Calls the operator's API of a running server. */
import { header } from '../contract/constants.ts'
import type { BuiltInAnswer } from '../contract/rest/built-in.ts'
import type { PruneReport } from '../contract/rest/prune.ts'
import type { QuarantineEntry, RecoveredSandbox } from '../contract/rest/quarantine.ts'
import type { ApiKey, Team } from '../contract/rest/team.ts'
import type { BuildStatusAnswer } from '../contract/rest/template.ts'
import { AppError } from '../lib/app-error.ts'
import type { ServerAddress } from '../lib/server-request.ts'
import { callServer } from './http-call.ts'

export type ServerAccess = ServerAddress & { adminToken: string }

export type LimitChanges = Partial<Team['limits']>
export type CreatedKey = ApiKey & { key: string }

const pruneWithinMs = 1_800_000
const deleteWithinMs = 600_000

export class AdminClient {
  readonly #access: ServerAccess

  constructor(access: ServerAccess) {
    this.#access = access
  }

  listTeams(): Promise<Team[]> {
    return this.#call('GET', '/admin/teams')
  }

  createTeam(name: string): Promise<Team> {
    return this.#call('POST', '/admin/teams', { name })
  }

  /** With `force` its sandboxes are killed one by one, so the limit is generous. */
  deleteTeam(teamID: string, force: boolean): Promise<void> {
    const path = `/admin/teams/${encodeURIComponent(teamID)}?force=${force}`
    return this.#call('DELETE', path, undefined, deleteWithinMs)
  }

  changeLimits(teamID: string, changes: LimitChanges): Promise<Team> {
    return this.#call('PATCH', `/admin/teams/${encodeURIComponent(teamID)}/limits`, changes)
  }

  listKeys(teamID: string): Promise<ApiKey[]> {
    return this.#call('GET', `/admin/teams/${encodeURIComponent(teamID)}/api-keys`)
  }

  createKey(teamID: string, name: string): Promise<CreatedKey> {
    return this.#call('POST', `/admin/teams/${encodeURIComponent(teamID)}/api-keys`, { name })
  }

  revokeKey(teamID: string, keyID: string): Promise<void> {
    const path = `/admin/teams/${encodeURIComponent(teamID)}/api-keys/${encodeURIComponent(keyID)}`
    return this.#call('DELETE', path)
  }

  /** Removing takes as long as the disk does, so the limit is generous. */
  prune(dryRun: boolean): Promise<PruneReport> {
    return this.#call('POST', '/admin/prune', { dryRun }, pruneWithinMs)
  }

  addBuiltIn(name: string, full: boolean): Promise<BuiltInAnswer> {
    return this.#call('POST', `/admin/built-in-templates/${encodeURIComponent(name)}`, { full })
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

  /** Finds a team by slug, id or name, since a person may know any of them. */
  async findTeam(word: string): Promise<Team> {
    const teams = await this.listTeams()
    const found =
      teams.find((team) => team.slug === word || team.teamID === word) ??
      teams.find((team) => team.name === word)
    if (found) return found
    const known = teams.map((team) => team.slug).join(', ')
    throw new AppError('not_found', `There is no team '${word}'. The teams are: ${known || '(none)'}.`)
  }

  #call<T>(method: string, target: string, body?: unknown, withinMs?: number): Promise<T> {
    const headers = { [header.adminToken]: this.#access.adminToken }
    return callServer(this.#access, {
      ...{ method, target, headers },
      ...(body !== undefined && { body: { json: body } }),
      ...(withinMs !== undefined && { withinMs }),
    })
  }
}
