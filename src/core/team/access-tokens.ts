/**
 * Access tokens, with which a person signs in on the command line. A token is shown only once, when it is
 * created.
 */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID } from '../../lib/ids.ts'
import { KeyLimit } from './key-limit.ts'
import {
  type AccessToken,
  apiKeyOf,
  type Caller,
  hashSecret,
  isAccessTokenShaped,
  maskOf,
  newAccessToken,
  sameSecret,
  type Team,
} from './team.ts'
import type { AccessTokenStore, KeyStore } from './team-store.ts'

export class AccessTokens {
  readonly #tokens: AccessTokenStore
  readonly #limit: KeyLimit
  readonly #clock: Clock

  constructor(parts: { accessTokens: AccessTokenStore; keys: KeyStore; clock: Clock }) {
    this.#tokens = parts.accessTokens
    this.#limit = new KeyLimit(parts.keys)
    this.#clock = parts.clock
  }

  async authenticate(token: string): Promise<Caller> {
    const invalid = (detail: string) =>
      new AppError('unauthenticated', `Invalid access token: ${detail}. Sign in again, or make a new one.`)
    if (!isAccessTokenShaped(token)) throw invalid('a token is sk_e2b_ and 40 hexadecimal digits')
    const hash = hashSecret(token)
    const found = await this.#tokens.findByHash(hash)
    if (!found || !sameSecret(found.hash, hash)) throw invalid('no team has this token')
    return { team: found.team, credential: { kind: 'access token', id: found.token.tokenID } }
  }

  async create({ teamID }: Team, name: string): Promise<{ token: string; record: AccessToken }> {
    const token = newAccessToken()
    const key = apiKeyOf(token)
    const shared = { teamID, createdAt: this.#clock.now(), revokedAt: null }
    const keyRecord = {
      ...shared,
      ...maskOf(key),
      keyID: newUUID(),
      name: `${name} (access token)`,
      lastUsedAt: null,
    }
    const record = { ...shared, ...maskOf(token), tokenID: newUUID(), name, keyID: keyRecord.keyID }
    await this.#limit.within(teamID, () =>
      this.#tokens.insert({ ...record, hash: hashSecret(token) }, { ...keyRecord, hash: hashSecret(key) }),
    )
    return { token, record }
  }

  async revoke(team: Team, tokenID: string): Promise<void> {
    if (await this.#tokens.revoke(team.teamID, tokenID, this.#clock.now())) return
    throw new AppError('not_found', `The team has no live access token ${tokenID}`)
  }
}
