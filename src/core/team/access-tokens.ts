/**
 * Access tokens, with which a person signs in on the command line. A token is shown only once, when it is
 * created.
 */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID } from '../../lib/ids.ts'
import { grantedBy, touch } from './granted.ts'
import type { KeyScope } from './key-grants.ts'
import { KeyLimit } from './key-limit.ts'
import {
  type AccessToken,
  apiKeyOf,
  type Caller,
  fullGrant,
  hashesOf,
  hashFor,
  isAccessTokenShaped,
  type KeyGrant,
  maskOf,
  newAccessToken,
  sameSecret,
  type Team,
} from './team.ts'
import type { AccessTokenStore, KeyStore } from './team-store.ts'

export class AccessTokens {
  readonly #tokens: AccessTokenStore
  readonly #keys: KeyStore
  readonly #limit: KeyLimit
  readonly #clock: Clock

  constructor(parts: { accessTokens: AccessTokenStore; keys: KeyStore; clock: Clock }) {
    this.#tokens = parts.accessTokens
    this.#keys = parts.keys
    this.#limit = new KeyLimit(parts.keys)
    this.#clock = parts.clock
  }

  /** `from` is the client's address. */
  async authenticate(token: string, from: string | null = null): Promise<Caller> {
    const invalid = (detail: string) =>
      new AppError('unauthenticated', `Invalid access token: ${detail}. Sign in again, or make a new one.`)
    if (!isAccessTokenShaped(token)) throw invalid('a token is sk_e2b_ and 40 hexadecimal digits')
    const hashes = hashesOf(token)
    const found = await this.#tokens.findByHash(...hashes)
    if (!found || !hashes.some((hash) => sameSecret(found.hash, hash)))
      throw invalid('no team has this token')
    const now = this.#clock.now()
    const { role, person } = grantedBy(found, now, invalid)
    touch(this.#keys, found.key, { now, from })
    const { expiresAt } = found.key
    const credential = { kind: 'access token', id: found.token.tokenID, expiresAt } as const
    return { team: found.team, role, person, credential }
  }

  async create(
    { teamID }: Team,
    name: string,
    grant: KeyGrant = fullGrant,
  ): Promise<{ token: string; record: AccessToken }> {
    const token = newAccessToken()
    const key = apiKeyOf(token)
    const shared = { teamID, createdAt: this.#clock.now(), revokedAt: null }
    const keyRecord = {
      ...shared,
      ...maskOf(key),
      keyID: newUUID(),
      name: `${name} (access token)`,
      lastUsedAt: null,
      lastUsedFrom: null,
      ...grant,
    }
    const record = { ...shared, ...maskOf(token), tokenID: newUUID(), name, keyID: keyRecord.keyID }
    await this.#limit.within({ teamID, personID: grant.personID, now: shared.createdAt }, () =>
      this.#tokens.insert(
        { ...record, hash: hashFor(grant, token) },
        { ...keyRecord, hash: hashFor(grant, key) },
      ),
    )
    return { token, record }
  }

  async revoke(team: Team, tokenID: string, scope?: KeyScope): Promise<void> {
    const owner = scope === undefined || scope.keyID === tokenID ? undefined : (scope.personID ?? 'nobody')
    if (await this.#tokens.revoke(team.teamID, tokenID, this.#clock.now(), owner)) return
    throw new AppError('not_found', `The team has no live access token ${tokenID}`)
  }
}
