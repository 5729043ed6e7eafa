/** What is remembered of teams, their keys and what they used. */
import type { TeamMetric } from './metric.ts'
import type { AccessToken, ApiKey, Team, TeamLimits } from './team.ts'

export interface TeamStore {
  /** Rejects with `already_exists` when the slug is taken. */
  insertTeam(team: Team): Promise<void>
  findTeam(idOrSlug: string): Promise<Team | undefined>
  listTeams(): Promise<Team[]>
  setLimits(teamID: string, limits: TeamLimits): Promise<void>
  /**
   * Removes the team with its keys, tokens, secrets, cached build steps and what is remembered of ended sandboxes, unless it
   * still has sandboxes, templates or volumes; none can be inserted at that moment. Undefined when there is no such team.
   */
  deleteUnused(
    teamID: string,
  ): Promise<{ deleted: true } | { sandboxes: number; templates: number; volumes: number } | undefined>
}

export interface KeyStore {
  insertKey(key: ApiKey & { hash: string }): Promise<void>
  /** Finds the live key with this hash, and its team. */
  findByHash(hash: string): Promise<{ key: ApiKey; hash: string; team: Team } | undefined>
  listKeys(teamID: string): Promise<ApiKey[]>
  /** Those of access tokens among them. */
  countLiveKeys(teamID: string): Promise<number>
  /** False when the team has no such live key. */
  revokeKey(teamID: string, keyID: string, at: number): Promise<boolean>
  touchKey(keyID: string, at: number): Promise<void>
  /** False when the team has no such live key. */
  renameKey(teamID: string, keyID: string, name: string): Promise<boolean>
}

export interface AccessTokenStore {
  /** Inserts the token together with the API key that it brings. */
  insert(token: AccessToken & { hash: string }, key: ApiKey & { hash: string }): Promise<void>
  /** Finds the live token with this hash, and its team. */
  findByHash(hash: string): Promise<{ token: AccessToken; hash: string; team: Team } | undefined>
  /** Revokes the token and the API key that it brings. False when the team has no such live token. */
  revoke(teamID: string, tokenID: string, at: number): Promise<boolean>
}

export interface TeamMetricStore {
  append(samples: readonly TeamMetric[]): Promise<void>
  /** The sums over all nodes, oldest first; both bounds are inclusive milliseconds. */
  range(teamID: string, from: number, to: number): Promise<TeamMetric[]>
  /** How many of each team's sandboxes run on this node, and how many of them began at or after `startedSince`. */
  count(startedSince: number): Promise<Omit<TeamMetric, 'at'>[]>
  /** How many of each team's sandboxes run, on all nodes. */
  countRunning(): Promise<{ teamID: string; count: number }[]>
  prune(before: number): Promise<void>
}
