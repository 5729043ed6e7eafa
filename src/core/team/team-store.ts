/** Stored teams, their keys, and their usage. */
import type { TeamMetric } from './metric.ts'
import type { AccessToken, ApiKey, FoundKey, Team, TeamLimits } from './team.ts'

export interface TeamStore {
  /** Rejects with `already_exists` if the slug is taken. */
  insertTeam(team: Team): Promise<void>
  findTeam(idOrSlug: string): Promise<Team | undefined>
  listTeams(): Promise<Team[]>
  setLimits(teamID: string, limits: TeamLimits): Promise<void>
  setOlderClients(teamID: string, allowed: boolean): Promise<void>
  /**
   * Removes the team with its keys, tokens, secrets, cached build steps and ended sandboxes, unless it has
   * sandboxes, templates or volumes; atomic against inserts of these. Undefined if there is no such team.
   */
  deleteUnused(
    teamID: string,
  ): Promise<{ deleted: true } | { sandboxes: number; templates: number; volumes: number } | undefined>
}

export interface KeyStore {
  insertKey(key: ApiKey & { hash: string }): Promise<void>
  /** Finds the key with one of these hashes, unless it is revoked. It may have ended, and its person may have left. */
  findByHash(...hashes: string[]): Promise<FoundKey | undefined>
  listKeys(teamID: string): Promise<ApiKey[]>
  /** Keys that are neither revoked nor ended, those of access tokens included; of all people, or of one. */
  countLiveKeys(teamID: string, now: number, personID?: string): Promise<number>
  /** False if the team has no such live key. */
  revokeKey(teamID: string, keyID: string, at: number): Promise<boolean>
  touchKey(keyID: string, at: number, from: string | null): Promise<void>
  /** False if the team has no such live key. */
  renameKey(teamID: string, keyID: string, name: string): Promise<boolean>
}

export interface AccessTokenStore {
  /** Inserts the token together with its API key. */
  insert(token: AccessToken & { hash: string }, key: ApiKey & { hash: string }): Promise<void>
  /** Like that of keys; the key is the token's own. */
  findByHash(...hashes: string[]): Promise<(FoundKey & { token: AccessToken }) | undefined>
  /** Revokes the token and its API key. False if the team, or the person if one is named, has no such live token. */
  revoke(teamID: string, tokenID: string, at: number, personID?: string): Promise<boolean>
}

export interface TeamMetricStore {
  append(samples: readonly TeamMetric[]): Promise<void>
  /** Sums over all nodes, oldest first. Both bounds are inclusive, in milliseconds. */
  range(teamID: string, from: number, to: number): Promise<TeamMetric[]>
  /**
   * Counts each team's sandboxes that run on this node, and those of them that started at or after
   * `startedSince`.
   */
  count(startedSince: number): Promise<Omit<TeamMetric, 'at'>[]>
  /** Counts the team's running sandboxes on all nodes, and those of them that started at this time or later. */
  countNow(teamID: string, startedSince: number): Promise<Omit<TeamMetric, 'at' | 'teamID'>>
  /** Counts each team's running sandboxes on all nodes. */
  countRunning(): Promise<{ teamID: string; count: number }[]>
  prune(before: number): Promise<void>
}
