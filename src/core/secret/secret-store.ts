/** What secrets need remembered; the rules of stores.ts hold here too. */
import type { Secret, SecretReference } from './secret.ts'
import type { SealedValue } from './vault.ts'

export type SecretPage = { limit: number; after?: { createdAt: number; secretID: string } }

export type SecretChange = {
  /** Replaces all metadata; undefined leaves them as they are. */
  metadata?: Record<string, string>
  at: number
  /** How many versions stay, the new one included. */
  keep: number
  /** Called once, with the secret as it will be: the value is sealed for its version. */
  seal: (secret: Secret) => SealedValue
}

export interface SecretStore {
  /**
   * Inserts the secret with its first value if the team has fewer than `most`, in one step that parallel creates
   * cannot pass together; false when the team has as many. Rejects with `already_exists` when the team has the name.
   */
  insert(secret: Secret, value: SealedValue, most: number): Promise<boolean>
  find(teamID: string, reference: SecretReference): Promise<Secret | undefined>
  /** Newest first, then by id. */
  list(teamID: string, page: SecretPage): Promise<Secret[]>
  /** Makes the next version the current one. Undefined when the team has no such secret. */
  append(teamID: string, reference: SecretReference, change: SecretChange): Promise<Secret | undefined>
  /** Deletes the secret with all its versions. False when the team has no such secret. */
  delete(teamID: string, reference: SecretReference): Promise<boolean>
  readCurrent(teamID: string, name: string): Promise<{ secret: Secret; value: SealedValue } | undefined>
  /** How many secrets of all teams have a current value that was sealed with another key. */
  countSealedByOthers(keyID: string): Promise<number>
}
