import assert from 'node:assert/strict'
import type { NewSession } from '../../core/sign-in/session-store.ts'
import { newUUID } from '../../lib/ids.ts'
import { time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const aSession = (personID: string, changes: Partial<NewSession> = {}): NewSession => ({
  sessionID: newUUID(),
  personID,
  createdAt: time,
  lastUsedAt: time,
  expiresAt: time + 1000,
  userAgent: 'a browser',
  address: '192.0.2.1',
  hash: newUUID(),
  attemptHash: newUUID(),
  idToken: { keyID: 'key', sealed: 'sealed' },
  ...changes,
})

const claims = { issuer: 'https://id.test', email: null, name: 'Ada', isOperator: false, memberships: [] }

export function sessionSuite(storeTest: StoreTest): void {
  storeTest(
    'a session is found with its person until it is ended, once and by its person',
    async (stores) => {
      const ada = await stores.people.signIn({ ...claims, subject: newUUID() }, time)
      const bob = await stores.people.signIn({ ...claims, subject: newUUID() }, time)
      const made = aSession(ada.personID)
      const { hash, attemptHash, idToken, ...session } = made
      assert.equal(await stores.sessions.insert(made), true)
      assert.deepEqual(await stores.sessions.findByHash(hash), { session, hash, person: ada })
      const { sessionID } = session
      await stores.sessions.touch(sessionID, time + 5)
      await stores.sessions.touch(sessionID, time + 4)
      assert.deepEqual(await stores.sessions.list(ada.personID), [{ ...session, lastUsedAt: time + 5 }])
      assert.equal(await stores.sessions.end(bob.personID, sessionID, time + 6), undefined)
      assert.deepEqual(await stores.sessions.end(ada.personID, sessionID, time + 6), { idToken })
      assert.equal(await stores.sessions.end(ada.personID, sessionID, time + 7), undefined)
      assert.equal(await stores.sessions.findByHash(hash), undefined)
      assert.deepEqual(await stores.sessions.list(ada.personID), [])
      // The attempt stays used.
      assert.equal(await stores.sessions.insert(aSession(ada.personID, { attemptHash })), false)
    },
  )

  storeTest('sessions are removed when they expired, were not used, or were ended', async (stores) => {
    const { personID } = await stores.people.signIn({ ...claims, subject: newUUID() }, time)
    const insert = async (changes: Partial<NewSession>) => {
      const session = aSession(personID, changes)
      await stores.sessions.insert(session)
      return session
    }
    await insert({ expiresAt: time - 1 })
    await insert({ lastUsedAt: time - 1 })
    const ended = await insert({})
    await stores.sessions.end(personID, ended.sessionID, time - 1)
    const live = await insert({ idToken: null })
    await stores.sessions.prune({ expiresAt: time, usedAt: time, endedAt: time })
    assert.deepEqual(
      (await stores.sessions.list(personID)).map(({ sessionID }) => sessionID),
      [live.sessionID],
    )
    assert.equal(await stores.sessions.insert(aSession(personID, { attemptHash: ended.attemptHash })), true)
  })
}
