/** The stored secrets; the rules of stores.ts apply here too. */
import type { Secret, SecretReference } from './secret.ts'
import type { SealedValue } from './vault.ts'

export type SecretPage = { limit: number; after?: { createdAt: number; secretID: string } }

export type SecretChange = {
  /** Replaces all metadata. Undefined leaves it unchanged. */
  metadata?: Record<string, string>
  at: number
  /** Number of versions to retain, including the new one. */
  maxVersions: number
  /** Called once with the changed secret, because a value is sealed for its version. */
  seal: (secret: Secret) => SealedValue
}

export interface SecretStore {
  /**
   * Inserts the secret with its first value if the team has fewer than `max`, atomically, so that concurrent
   * creates cannot exceed the limit together. False if the team has reached the limit. Rejects with
   * `already_exists` if the team has the name.
   */
  insert(secret: Secret, value: SealedValue, max: number): Promise<boolean>
  find(teamID: string, reference: SecretReference): Promise<Secret | undefined>
  /** Newest first, then by ID. */
  list(teamID: string, page: SecretPage): Promise<Secret[]>
  /** Makes the next version the current one. Undefined if the team has no such secret. */
  append(teamID: string, reference: SecretReference, change: SecretChange): Promise<Secret | undefined>
  /** Deletes the secret with all its versions. False if the team has no such secret. */
  delete(teamID: string, reference: SecretReference): Promise<boolean>
  readCurrent(teamID: string, name: string): Promise<{ secret: Secret; value: SealedValue } | undefined>
  /** Counts the secrets of all teams whose current value was sealed with another key. */
  countSealedByOthers(keyID: string): Promise<number>
}
