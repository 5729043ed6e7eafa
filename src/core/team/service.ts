/** Teams and their keys. A key is shown only once, when it is created; afterwards only its hash is stored. */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID } from '../../lib/ids.ts'
import { KeyLimit } from './key-limit.ts'
import {
  type ApiKey,
  type Caller,
  defaultTeamLimits,
  hashSecret,
  isApiKeyShaped,
  maskOf,
  newApiKey,
  sameSecret,
  type Team,
  type TeamLimits,
} from './team.ts'
import type { KeyStore, TeamStore } from './team-store.ts'

const touchEveryMs = 60_000
const slugPattern = /^[a-z0-9][a-z0-9-_]{0,62}$/

export class TeamService {
  readonly #teams: TeamStore
  readonly #keys: KeyStore
  readonly #limit: KeyLimit
  readonly #clock: Clock

  constructor(parts: { teams: TeamStore; keys: KeyStore; clock: Clock }) {
    this.#teams = parts.teams
    this.#keys = parts.keys
    this.#limit = new KeyLimit(parts.keys)
    this.#clock = parts.clock
  }

  /** Looks the key up for every request, so a revoked key stops working at once. */
  async authenticate(key: string): Promise<Caller> {
    const invalid = (detail: string) =>
      new AppError('unauthenticated', `Invalid API key: ${detail}. 'warren key create' makes a new one.`)
    if (!isApiKeyShaped(key)) throw invalid('a key is e2b_ and 40 hexadecimal digits')
    const hash = hashSecret(key)
    const found = await this.#keys.findByHash(hash)
    if (!found || !sameSecret(found.hash, hash)) throw invalid('no team has this key')
    const now = this.#clock.now()
    if (now - (found.key.lastUsedAt ?? 0) > touchEveryMs) {
      // A request must not fail because the time of use cannot be written, for instance on a full disk.
      await this.#keys.touchKey(found.key.keyID, now).catch(() => {})
    }
    return { team: found.team, credential: { kind: 'api key', id: found.key.keyID } }
  }

  async createTeam(name: string, slug = slugOf(name)): Promise<Team> {
    if (!slugPattern.test(slug)) {
      throw new AppError(
        'invalid_argument',
        `'${slug}' cannot name a team: use lowercase letters, digits, '-' and '_', 63 at most`,
      )
    }
    const team: Team = {
      teamID: newUUID(),
      slug,
      name,
      limits: defaultTeamLimits,
      olderClients: false,
      createdAt: this.#clock.now(),
    }
    await this.#teams.insertTeam(team)
    return team
  }

  listTeams(): Promise<Team[]> {
    return this.#teams.listTeams()
  }

  async getTeam(idOrSlug: string): Promise<Team> {
    const team = await this.#teams.findTeam(idOrSlug)
    if (!team) throw new AppError('not_found', `Team '${idOrSlug}' not found; 'warren team list' shows them`)
    return team
  }

  async changeLimits(idOrSlug: string, changes: Partial<TeamLimits>): Promise<Team> {
    const team = await this.getTeam(idOrSlug)
    const limits = { ...team.limits, ...changes }
    await this.#teams.setLimits(team.teamID, limits)
    return { ...team, limits }
  }

  async allowOlderClients(idOrSlug: string, olderClients: boolean): Promise<Team> {
    const team = await this.getTeam(idOrSlug)
    await this.#teams.setOlderClients(team.teamID, olderClients)
    return { ...team, olderClients }
  }

  async createKey(idOrSlug: string, name: string): Promise<{ key: string; record: ApiKey }> {
    const { teamID } = await this.getTeam(idOrSlug)
    const key = newApiKey()
    const record: ApiKey = {
      keyID: newUUID(),
      teamID,
      name,
      ...maskOf(key),
      createdAt: this.#clock.now(),
      lastUsedAt: null,
      revokedAt: null,
    }
    await this.#limit.within(teamID, () => this.#keys.insertKey({ ...record, hash: hashSecret(key) }))
    return { key, record }
  }

  async listKeys(idOrSlug: string): Promise<ApiKey[]> {
    const { teamID } = await this.getTeam(idOrSlug)
    return this.#keys.listKeys(teamID)
  }

  async listLiveKeys(idOrSlug: string): Promise<ApiKey[]> {
    return (await this.listKeys(idOrSlug)).filter(({ revokedAt }) => revokedAt === null)
  }

  async renameKey(team: Team, keyID: string, name: string): Promise<void> {
    if (!(await this.#keys.renameKey(team.teamID, keyID, name))) throw noSuchKey(keyID)
  }

  async revokeKey(idOrSlug: string, keyID: string): Promise<void> {
    const { teamID } = await this.getTeam(idOrSlug)
    const revoked = await this.#keys.revokeKey(teamID, keyID, this.#clock.now())
    if (!revoked) throw noSuchKey(keyID)
  }
}

const noSuchKey = (keyID: string) => new AppError('not_found', `The team has no live key ${keyID}`)

function slugOf(name: string): string {
  return name
    .trim()
    .toLowerCase()
    .replaceAll(/[^a-z0-9-_]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
}
