/** Limits the number of keys and access tokens of a team: each is a row that every list shows. */
import { AppError } from '../../lib/app-error.ts'
import { KeyedLock } from '../../lib/keyed-lock.ts'
import type { KeyStore } from './team-store.ts'

export const maxLiveKeys = 200

export class KeyLimit {
  readonly #keys: Pick<KeyStore, 'countLiveKeys'>
  readonly #turn = new KeyedLock()

  constructor(keys: Pick<KeyStore, 'countLiveKeys'>) {
    this.#keys = keys
  }

  /**
   * Creates the team's keys one after another, so that concurrent requests cannot exceed the limit together.
   */
  within<T>(teamID: string, make: () => Promise<T>): Promise<T> {
    return this.#turn.run(teamID, async () => {
      if ((await this.#keys.countLiveKeys(teamID)) < maxLiveKeys) return make()
      throw new AppError(
        'limit_reached',
        `A team can have at most ${maxLiveKeys} keys and access tokens: revoke those that are no longer used`,
        { retry: { should: false } },
      )
    })
  }
}
