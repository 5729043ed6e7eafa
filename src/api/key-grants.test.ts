import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import type { Role } from '../core/person/person.ts'
import type { KeyGrant } from '../core/team/team.ts'

type World = Awaited<ReturnType<typeof openApi>>

const plainHash = (key: string) => createHash('sha256').update(key).digest('hex')

/** A person with this role in the team, and a key of theirs that allows all of it. */
async function personWith(warren: World, role: Role, grant: Partial<KeyGrant> = {}) {
  const { stores, team, clock } = warren.fixture
  const { teamID } = team
  const email = `${role}@example.com`
  const added = await stores.members.add({
    teamID,
    email,
    role,
    addedBy: '',
    at: clock.now(),
    personID: role,
  })
  const { personID } = added.person
  const full = { role: 'owner', personID, madeBy: email, expiresAt: null } as const
  const { key, record } = await warren.teams.createKey(teamID, email, { ...full, ...grant })
  const ask = (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, body?: object) =>
    warren.ask(method, url, { headers: { 'x-api-key': key }, body })
  return { personID, key, keyID: record.keyID, ask }
}

describe('a key', () => {
  it('allows no more than its maker may do, and lasts no longer', async () => {
    await using warren = await openApi()
    const expiresAt = warren.fixture.clock.now() + 3_600_000
    const member = await personWith(warren, 'member', { expiresAt })
    const make = (body: object) => member.ask('POST', '/api-keys', { name: 'k', ...body })
    const made = (await make({})).json()
    assert.deepEqual(
      [made.role, made.expiresAt, made.createdBy.id, made.madeBy],
      ['member', new Date(expiresAt).toISOString(), member.personID, 'member@example.com'],
    )
    assert.equal((await make({ role: 'viewer' })).status, 201)
    for (const body of [
      { role: 'owner' },
      { service: true },
      { expiresAt: new Date(expiresAt + 1).toISOString() },
    ])
      assert.equal((await make(body)).status, 403, JSON.stringify(body))
    for (const body of [{ expiresAt: '2001-01-01T00:00:00Z' }, { role: 'king' }, { expiresAt: 'soon' }])
      assert.equal((await make(body)).status, 400, JSON.stringify(body))
    assert.equal((await member.ask('POST', '/access-tokens', { name: 't', role: 'owner' })).status, 403)
    const token = (await member.ask('POST', '/access-tokens', { name: 't' })).json()
    const asToken = { 'x-api-key': undefined, authorization: `Bearer ${token.token}` }
    const refused = await warren.ask('POST', '/events/webhooks', { headers: asToken, body: {} })
    assert.equal(refused.status, 403, 'the token has the role of its maker')
  })

  it('ends at its end, with a message that says so', async () => {
    await using warren = await openApi()
    const { clock, team } = warren.fixture
    const expiresAt = clock.now() + 1000
    const grant = { role: 'viewer', personID: null, madeBy: null, expiresAt } as const
    const { key } = await warren.teams.createKey(team.teamID, 'k', grant)
    const ask = () => warren.ask('GET', '/secrets', { headers: { 'x-api-key': key } })
    assert.equal((await ask()).status, 200)
    clock.advance(1000)
    const late = await ask()
    assert.equal(late.status, 401)
    assert.match(late.json().message, /it ended at 2023-/)
    assert.equal((await warren.ask('GET', '/api-keys')).json().length, 1, 'it is in no list any more')
  })

  it('is seen, renamed and revoked by its person and by owners only', async () => {
    await using warren = await openApi()
    const [member, viewer, owner] = [
      await personWith(warren, 'member'),
      await personWith(warren, 'viewer'),
      await personWith(warren, 'owner'),
    ]
    const seenBy = async ({ ask }: typeof member) =>
      (await ask('GET', '/api-keys')).json().map(({ id }: { id: string }) => id)
    assert.deepEqual(await seenBy(viewer), [viewer.keyID])
    assert.equal((await seenBy(owner)).length, 4)
    const theirs = `/api-keys/${member.keyID}`
    assert.equal((await viewer.ask('PATCH', theirs, { name: 'mine' })).status, 404)
    assert.equal((await viewer.ask('DELETE', theirs)).status, 404)
    const { id } = (await member.ask('POST', '/access-tokens', { name: 't' })).json()
    assert.equal((await viewer.ask('DELETE', `/access-tokens/${id}`)).status, 404)
    assert.equal((await member.ask('DELETE', `/access-tokens/${id}`)).status, 204)
    assert.equal((await member.ask('PATCH', theirs, { name: 'laptop' })).status, 200)
    assert.equal((await owner.ask('DELETE', theirs)).status, 204)
    assert.equal((await member.ask('GET', '/api-keys')).status, 401)
  })

  it('of a person goes with their membership; nobody else is removed by a member', async () => {
    await using warren = await openApi()
    const [owner, member] = [await personWith(warren, 'owner'), await personWith(warren, 'member')]
    const path = (personID: string) => `/teams/alpha/members/${personID}`
    assert.equal((await member.ask('DELETE', path(owner.personID))).status, 403)
    assert.equal((await owner.ask('DELETE', path(owner.personID))).status, 409, 'the last owner stays')
    assert.equal((await owner.ask('PATCH', path(owner.personID), { role: 'viewer' })).status, 409)
    assert.equal((await member.ask('DELETE', path(member.personID))).status, 204, 'a member may leave')
    assert.equal((await member.ask('GET', '/secrets')).status, 401)
    await personWith(warren, 'member')
    assert.equal((await member.ask('GET', '/secrets')).status, 401, 'who comes back makes new keys')
  })

  it('that is limited is unknown to a Warren that knows no limits', async () => {
    await using warren = await openApi()
    const { stores, team } = warren.fixture
    const { key: limited } = await personWith(warren, 'viewer')
    assert.equal(await stores.keys.findByHash(plainHash(limited)), undefined)
    assert.equal((await stores.keys.findByHash(plainHash(warren.key)))?.team.teamID, team.teamID)
  })

  it('tells when and from where it was used last, written once a minute', async () => {
    await using warren = await openApi({ trustedProxies: ['127.0.0.1'] })
    const { clock, stores, team } = warren.fixture
    const useFrom = (address: string) =>
      warren.ask('GET', '/secrets', { headers: { 'x-forwarded-for': address } })
    const lastUse = async () => (await stores.keys.listKeys(team.teamID))[0]?.lastUsedFrom
    await useFrom('198.51.100.1')
    await useFrom('198.51.100.2')
    assert.equal(await lastUse(), '198.51.100.1')
    clock.advance(60_001)
    await useFrom('198.51.100.3')
    assert.equal(await lastUse(), '198.51.100.3')
  })

  it('is one of at most 20 of a person in a team', async () => {
    await using warren = await openApi()
    const member = await personWith(warren, 'member')
    const statuses: number[] = []
    for (let i = 0; i < 20; i++) statuses.push((await member.ask('POST', '/api-keys', { name: 'k' })).status)
    assert.deepEqual(statuses, [...Array(19).fill(201), 429])
  })
})
