/** Limits the number of keys and access tokens of a team and of a person in it: each is a row that every list shows. */
import { AppError } from '../../lib/app-error.ts'
import { KeyedLock } from '../../lib/keyed-lock.ts'
import type { KeyStore } from './team-store.ts'

export const maxLiveKeys = 200
const maxLiveKeysOfPerson = 20

export class KeyLimit {
  readonly #keys: Pick<KeyStore, 'countLiveKeys'>
  readonly #turn = new KeyedLock()

  constructor(keys: Pick<KeyStore, 'countLiveKeys'>) {
    this.#keys = keys
  }

  /**
   * Creates the team's keys one after another, so that concurrent requests cannot exceed the limit together.
   */
  within<T>({ teamID, personID, now }: KeyMaker, make: () => Promise<T>): Promise<T> {
    return this.#turn.run(teamID, async () => {
      if ((await this.#keys.countLiveKeys(teamID, now)) >= maxLiveKeys) throw tooMany('A team', maxLiveKeys)
      if (personID !== null && (await this.#keys.countLiveKeys(teamID, now, personID)) >= maxLiveKeysOfPerson)
        throw tooMany('A person in a team', maxLiveKeysOfPerson)
      return make()
    })
  }
}

type KeyMaker = { teamID: string; personID: string | null; now: number }

const tooMany = (who: string, max: number): AppError =>
  new AppError(
    'limit_reached',
    `${who} can have at most ${max} keys and access tokens: revoke those that are no longer used`,
    { retry: { should: false } },
  )
