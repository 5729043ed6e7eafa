/**
 * The secrets of teams. A value is sealed when it comes in; only `readSecret` opens it, for the egress gate.
 */
import { AppError, isAppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newSecretID } from '../../lib/ids.ts'
import { insertOnce } from '../../lib/insert-once.ts'
import { retryPassing } from '../../lib/retry-passing.ts'
import type { SecretReader } from '../ports/egress.ts'
import type { Team } from '../team/team.ts'
import {
  checkMetadata,
  checkValue,
  ownerOf,
  type Secret,
  secretLimits,
  secretName,
  secretReference,
} from './secret.ts'
import type { SecretPage, SecretStore } from './secret-store.ts'
import type { SecretVault } from './vault.ts'

type NewValue = { value: string; metadata?: Record<string, string> }

export class SecretService implements SecretReader {
  readonly #secrets: SecretStore
  readonly #vault: SecretVault
  readonly #clock: Clock

  constructor(parts: { secrets: SecretStore; vault: SecretVault; clock: Clock }) {
    this.#secrets = parts.secrets
    this.#vault = parts.vault
    this.#clock = parts.clock
  }

  async create({ teamID }: Team, request: NewValue & { name: string }): Promise<Secret> {
    const { value, metadata = {} } = request
    const name = secretName(request.name)
    checkValue(value)
    checkMetadata(metadata)
    const now = this.#clock.now()
    const secretID = newSecretID()
    const secret = { secretID, teamID, name, currentVersion: 1, metadata, createdAt: now, updatedAt: now }
    const sealed = this.#vault.seal(ownerOf(secret), value)
    const inserted = await insertOnce(this.#clock, {
      insert: () => this.#secrets.insert(secret, sealed, secretLimits.perTeam),
      isThere: async () => (await this.#secrets.find(teamID, { secretID })) !== undefined,
    }).catch(nameInUse)
    if (inserted) return secret
    throw new AppError(
      'conflict',
      `The team has ${secretLimits.perTeam} secrets, which is the limit: delete those it does not need`,
      { slug: 'secret_limit_reached', retry: { should: false } },
    )
  }

  /** Appends a version. Metadata that is not given stays unchanged. */
  async update({ teamID }: Team, idOrName: string, { value, metadata }: NewValue): Promise<Secret> {
    const reference = secretReference(idOrName)
    checkValue(value)
    if (metadata) checkMetadata(metadata)
    const updated = await this.#secrets.append(teamID, reference, {
      ...(metadata && { metadata }),
      at: this.#clock.now(),
      maxVersions: secretLimits.maxVersions,
      seal: (secret) => this.#vault.seal(ownerOf(secret), value),
    })
    return updated ?? notFound()
  }

  async get({ teamID }: Team, idOrName: string): Promise<Secret> {
    return (await this.#secrets.find(teamID, secretReference(idOrName))) ?? notFound()
  }

  async delete({ teamID }: Team, idOrName: string): Promise<void> {
    const reference = secretReference(idOrName)
    const isDeleted = await retryPassing(
      this.#clock,
      // After the first attempt the secret may be missing because an earlier attempt deleted it.
      async (attempt) => (await this.#secrets.delete(teamID, reference)) || attempt > 0,
    )
    if (!isDeleted) notFound()
  }

  list({ teamID }: Team, page: SecretPage): Promise<Secret[]> {
    return this.#secrets.list(teamID, page)
  }

  async readSecret(teamID: string, name: string): Promise<string | null> {
    let stored: string
    try {
      stored = secretName(name)
    } catch {
      return null
    }
    const found = await this.#secrets.readCurrent(teamID, stored)
    return found ? this.#vault.open(ownerOf(found.secret), found.value) : null
  }

  /** Counts the secrets that were sealed with a key other than this Warren's. */
  countLocked(): Promise<number> {
    return this.#secrets.countSealedByOthers(this.#vault.keyID)
  }
}

function notFound(): never {
  throw new AppError('not_found', 'Secret not found: the team has none with this name or id')
}

function nameInUse(cause: unknown): never {
  if (!isAppError(cause, 'already_exists')) throw cause
  const message =
    'A secret with this name exists already: choose another name, or give that one a new value by ' +
    'POST /secrets/{name}'
  throw new AppError('already_exists', message, { cause, retry: { should: false } })
}
