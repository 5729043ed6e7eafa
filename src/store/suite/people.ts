import assert from 'node:assert/strict'
import type { Role } from '../../core/person/person.ts'
import type { NewMember, SignInClaims } from '../../core/person/person-store.ts'
import { newUUID } from '../../lib/ids.ts'
import { aKey, insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const claimsOf = (subject: string, changes: Partial<SignInClaims> = {}): SignInClaims => ({
  issuer: 'https://id.test',
  subject,
  email: `${subject}@example.com`,
  name: subject,
  isOperator: false,
  memberships: [],
  ...changes,
})

const newMember = (teamID: string, email: string, role: Role): NewMember => ({
  teamID,
  email,
  role,
  addedBy: 'the test',
  at: time,
  personID: newUUID(),
})

const hasCode = (code: string) => (error: unknown) => (error as { code?: string }).code === code

export function peopleSuite(storeTest: StoreTest): void {
  storeTest(
    'a person is known by issuer and subject, whatever their e-mail address is',
    async ({ people }) => {
      const first = await people.signIn(claimsOf('ada', { isOperator: true }), time)
      const second = await people.signIn(claimsOf('ada', { email: null, name: 'Ada' }), time + 1)
      assert.equal(second.personID, first.personID)
      assert.deepEqual([second.email, second.name, second.isOperator], [null, 'Ada', false])
      assert.deepEqual(await people.find(first.personID), {
        ...second,
        createdAt: time,
        lastSignInAt: time + 1,
      })
      const other = await people.signIn(claimsOf('ada', { issuer: 'https://other.test' }), time)
      assert.notEqual(other.personID, first.personID)
      const both = [claimsOf('eve'), claimsOf('eve')].map((claims) => people.signIn(claims, time))
      const [one, same] = await Promise.all(both)
      assert.equal(one?.personID, same?.personID)
    },
  )

  storeTest('who signs in with the address of an invitation becomes the invited person', async (stores) => {
    const { people, members } = stores
    const { teamID } = await insertTeam(stores)
    const invited = await members.add(newMember(teamID, 'ada@example.com', 'member'))
    assert.equal(invited.person.lastSignInAt, null)
    const unverified = await people.signIn(claimsOf('mallory', { email: null }), time)
    assert.notEqual(unverified.personID, invited.person.personID)
    const ada = await people.signIn(claimsOf('ada'), time)
    assert.equal(ada.personID, invited.person.personID)
    assert.deepEqual(await people.rolesOf(ada.personID), [{ teamID, role: 'member' }])
    const twin = await people.signIn(claimsOf('twin', { email: 'ada@example.com' }), time)
    assert.notEqual(twin.personID, ada.personID, 'an invitation is adopted once')
  })

  storeTest('groups of the provider give and take roles, and leave manual ones alone', async (stores) => {
    const { people, members, keys } = stores
    const [one, two] = [(await insertTeam(stores)).teamID, (await insertTeam(stores)).teamID]
    const groups = (...memberships: SignInClaims['memberships']) => claimsOf('ada', { memberships })
    const { personID } = await people.signIn(
      groups({ teamID: one, role: 'viewer' }, { teamID: two, role: 'owner' }),
      time,
    )
    const roleIn = () => Promise.all([one, two].map((teamID) => people.roleIn(teamID, personID)))
    assert.deepEqual(await roleIn(), ['viewer', 'owner'])
    const key = aKey(two, { personID, role: 'member' })
    await keys.insertKey(key)
    assert.equal((await keys.findByHash(key.hash))?.memberRole, 'owner')
    assert.equal(await members.setRole(one, personID, 'member'), 'changed')
    await people.signIn(groups(), time + 1)
    assert.deepEqual(await roleIn(), ['member', undefined])
    assert.equal(await keys.findByHash(key.hash), undefined, 'the key went with the membership')
  })

  storeTest('a team keeps its last owner, whatever several requests ask at once', async (stores) => {
    const { members } = stores
    const { teamID } = await insertTeam(stores)
    const ada = await members.add(newMember(teamID, 'ada@example.com', 'owner'))
    const eve = await members.add(newMember(teamID, 'eve@example.com', 'owner'))
    const [adaID, eveID] = [ada.person.personID, eve.person.personID]
    const outcomes = await Promise.all([
      members.remove(teamID, adaID, time),
      members.setRole(teamID, eveID, 'viewer'),
    ])
    assert.deepEqual(outcomes.toSorted(), ['changed', 'last owner'])
    const left = await members.list(teamID)
    const owners = left.filter(({ role }) => role === 'owner')
    assert.equal(owners.length, 1)
    assert.equal(await members.remove(teamID, owners[0]!.person.personID, time), 'last owner')
    assert.equal(await members.setRole(teamID, newUUID(), 'viewer'), 'absent')
  })

  storeTest('a member who is removed takes their keys in that team along, and no others', async (stores) => {
    const { members, keys } = stores
    const [one, two] = [(await insertTeam(stores)).teamID, (await insertTeam(stores)).teamID]
    await members.add(newMember(one, 'owner@example.com', 'owner'))
    const { person } = await members.add(newMember(one, 'ada@example.com', 'member'))
    await members.add(newMember(two, 'ada@example.com', 'member'))
    const { personID } = person
    const [mine, elsewhere, service] = [aKey(one, { personID }), aKey(two, { personID }), aKey(one)]
    for (const key of [mine, elsewhere, service]) await keys.insertKey(key)
    assert.equal(await keys.countLiveKeys(one, time, personID), 1)
    assert.equal(await members.remove(one, personID, time), 'changed')
    const found = [mine, elsewhere, service].map(({ hash }) => keys.findByHash(hash))
    const isLive = (await Promise.all(found)).map((key) => key !== undefined)
    assert.deepEqual(isLive, [false, true, true])
    assert.equal(await members.remove(one, personID, time), 'absent')
  })

  storeTest('a member is added once, to a team that exists', async (stores) => {
    const { members } = stores
    const { teamID } = await insertTeam(stores)
    await members.add(newMember(teamID, 'ada@example.com', 'viewer'))
    const again = members.add(newMember(teamID, 'ada@example.com', 'owner'))
    await assert.rejects(again, hasCode('already_exists'))
    await assert.rejects(members.add(newMember('nowhere', 'ada@example.com', 'owner')), hasCode('not_found'))
    assert.deepEqual(
      (await members.list(teamID)).map(({ role, source, person }) => [role, source, person.email]),
      [['viewer', 'manual', 'ada@example.com']],
    )
  })

  storeTest('a key that has ended does not count', async (stores) => {
    const { teamID } = await insertTeam(stores)
    await stores.keys.insertKey(aKey(teamID, { expiresAt: time + 1 }))
    assert.equal(await stores.keys.countLiveKeys(teamID, time), 1)
    assert.equal(await stores.keys.countLiveKeys(teamID, time + 1), 0)
  })
}
