/** Teams and their keys. A key is shown only once, when it is created; afterwards only its hash is stored. */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID } from '../../lib/ids.ts'
import { grantedBy, touch } from './granted.ts'
import { isInScope, type KeyScope } from './key-grants.ts'
import { KeyLimit } from './key-limit.ts'
import {
  type ApiKey,
  type Caller,
  defaultTeamLimits,
  fullGrant,
  hashesOf,
  hashFor,
  isApiKeyShaped,
  type KeyGrant,
  maskOf,
  newApiKey,
  sameSecret,
  type Team,
  type TeamLimits,
} from './team.ts'
import type { KeyStore, TeamStore } from './team-store.ts'

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

  /**
   * Looks the key up for every request, so that a revoked key stops working at once, and the role of its person counts as it is
   * now. `from` is the client's address.
   */
  async authenticate(key: string, from: string | null = null): Promise<Caller> {
    const invalid = (detail: string) =>
      new AppError('unauthenticated', `Invalid API key: ${detail}. 'warren key create' makes a new one.`)
    if (!isApiKeyShaped(key)) throw invalid('a key is e2b_ and 40 hexadecimal digits')
    const hashes = hashesOf(key)
    const found = await this.#keys.findByHash(...hashes)
    if (!found || !hashes.some((hash) => sameSecret(found.hash, hash))) throw invalid('no team has this key')
    const now = this.#clock.now()
    const { role, person } = grantedBy(found, now, invalid)
    touch(this.#keys, found.key, { now, from })
    const { keyID: id, expiresAt } = found.key
    return { team: found.team, role, person, credential: { kind: 'api key', id, expiresAt } }
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

  async createKey(
    idOrSlug: string,
    name: string,
    grant: KeyGrant = fullGrant,
  ): Promise<{ key: string; record: ApiKey }> {
    const { teamID } = await this.getTeam(idOrSlug)
    const key = newApiKey()
    const record: ApiKey = {
      keyID: newUUID(),
      teamID,
      name,
      ...maskOf(key),
      createdAt: this.#clock.now(),
      lastUsedAt: null,
      lastUsedFrom: null,
      revokedAt: null,
      ...grant,
    }
    await this.#limit.within({ teamID, personID: grant.personID, now: record.createdAt }, () =>
      this.#keys.insertKey({ ...record, hash: hashFor(grant, key) }),
    )
    return { key, record }
  }

  async listKeys(idOrSlug: string): Promise<ApiKey[]> {
    const { teamID } = await this.getTeam(idOrSlug)
    return this.#keys.listKeys(teamID)
  }

  async listLiveKeys(idOrSlug: string): Promise<ApiKey[]> {
    const now = this.#clock.now()
    const keys = await this.listKeys(idOrSlug)
    return keys.filter(
      ({ revokedAt, expiresAt }) => revokedAt === null && (expiresAt === null || expiresAt > now),
    )
  }

  async renameKey(team: Team, keyID: string, name: string, scope?: KeyScope): Promise<void> {
    await this.#requireInScope(team.teamID, keyID, scope)
    if (!(await this.#keys.renameKey(team.teamID, keyID, name))) throw noSuchKey(keyID)
  }

  async revokeKey(idOrSlug: string, keyID: string, scope?: KeyScope): Promise<void> {
    const { teamID } = await this.getTeam(idOrSlug)
    await this.#requireInScope(teamID, keyID, scope)
    const revoked = await this.#keys.revokeKey(teamID, keyID, this.#clock.now())
    if (!revoked) throw noSuchKey(keyID)
  }

  /** A key never changes hands, so that what is seen here still holds at the change. */
  async #requireInScope(teamID: string, keyID: string, scope: KeyScope): Promise<void> {
    if (scope === undefined) return
    const key = (await this.#keys.listKeys(teamID)).find((each) => each.keyID === keyID)
    if (!key || !isInScope(key, scope)) throw noSuchKey(keyID)
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
