/** Walks every route of the API with every kind of caller: the table of permissions is what the server does. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import Fastify from 'fastify'
import { openApi } from '../../test/support/api.ts'
import { addTeam } from '../../test/support/domain.ts'
import type { Role } from '../core/person/person.ts'
import { permissions, requirePermissions } from './permissions.ts'

const warren = await openApi({
  answerMcp: async (_caller, _request, response) => void response.end(),
})
after(() => warren[Symbol.asyncDispose]())
const { stores, clock, team } = warren.fixture
await stores.teams.setLimits(team.teamID, { ...team.limits, maxSandboxes: 20 })
const roles: Role[] = ['viewer', 'member', 'owner']
const grant = { personID: null, madeBy: null, expiresAt: null }

const keyOf = async (teamID: string, role: Role) =>
  (await warren.teams.createKey(teamID, role, { ...grant, role })).key
const keys = new Map<Role, string>()
for (const role of roles) keys.set(role, await keyOf(team.teamID, role))
const other = await addTeam(warren.fixture, 'other')
const otherKey = await keyOf(other.teamID, 'owner')

type Method = Parameters<typeof warren.ask>[0]
const routes = Object.entries(permissions).map(([name, permission]) => {
  const [method, path] = name.split(' ') as [Method, string]
  return { name, method, path, permission }
})
/** IDs that nothing has, and a body that no route takes: who may make the request gets another refusal. */
const urlOf = (path: string, teamID = team.teamID) =>
  path
    .replace(':teamID', teamID)
    .replace(':personID', 'p1')
    .replaceAll(/:\w+|\*/g, 'none')

async function statusOf(name: Method, url: string, headers: Record<string, string | undefined>) {
  const { status } = await warren.ask(name, url, { headers, ...(name !== 'GET' && { body: 0 }) })
  return status
}

for (const { name, method, path, permission } of routes) {
  if (!roles.some((role) => role === permission)) continue
  it(`${name} is for the role ${permission} and stronger ones, and for nobody without a key`, async () => {
    const allowed = roles.slice(roles.indexOf(permission as Role))
    for (const role of roles) {
      const status = await statusOf(method, urlOf(path), { 'x-api-key': keys.get(role) })
      if (!allowed.includes(role)) assert.equal(status, 403, role)
      // Removing others is for owners, which the route tells after the table has let the caller in.
      else if (name !== 'DELETE /teams/:teamID/members/:personID') assert.notEqual(status, 403, role)
      assert.notEqual(status, 401, role)
    }
    assert.equal(await statusOf(method, urlOf(path), { 'x-api-key': undefined }), 401)
    const asAdmin = { 'x-api-key': undefined, 'x-admin-token': 'admin-token', 'x-team-id': team.teamID }
    if (path !== '/mcp') assert.notEqual(await statusOf(method, urlOf(path), asAdmin), 401)
  })
}

for (const { name, method, path, permission } of routes) {
  if (permission !== 'operator') continue
  it(`${name} is for the operator, and for no key of a team`, async () => {
    for (const key of [...keys.values(), undefined])
      assert.equal(await statusOf(method, urlOf(path), { 'x-api-key': key }), 401)
  })
}

for (const { name, method, path, permission } of routes) {
  if (permission !== 'person') continue
  it(`${name} is for a person who signed in, and for no key`, async () => {
    for (const key of [...keys.values(), undefined])
      assert.equal(await statusOf(method, urlOf(path), { 'x-api-key': key }), 401)
  })
}

for (const { name, method, path } of routes) {
  if (!path.includes('/teams/:teamID') || path.startsWith('/admin')) continue
  it(`${name} of another team is refused to its neighbour's owner`, async () => {
    const bodies: Partial<Record<Method, object>> = {
      POST: { email: 'a@example.com', role: 'owner' },
      PATCH: { role: 'owner' },
    }
    const body = bodies[method]
    for (const named of [team.teamID, team.slug]) {
      const url = `${urlOf(path, named)}${path.endsWith('/max') ? '?metric=concurrent_sandboxes' : ''}`
      const { status } = await warren.ask(method, url, { headers: { 'x-api-key': otherKey }, body })
      assert.equal(status, 403)
    }
    assert.deepEqual(await stores.members.list(team.teamID), [])
  })
}

it('no route with an ID in its path finds what another team has', async () => {
  const ask = async (method: Method, url: string, body?: unknown) =>
    (await warren.ask(method, url, { body })).json()
  const sandboxID = await warren.create()
  const { secretID } = await ask('POST', '/secrets', { name: 'mine', value: 'v' })
  const volume = await ask('POST', '/volumes', { name: 'mine' })
  const hook = { name: 'h', url: 'https://a.test/', events: ['sandbox.lifecycle.created'] }
  const { id: webhookID } = await ask('POST', '/events/webhooks', {
    ...hook,
    signatureSecret: 's'.repeat(40),
  })
  const { id: keyID } = await ask('POST', '/api-keys', { name: 'mine' })
  const { id: tokenID } = await ask('POST', '/access-tokens', { name: 'mine' })
  const { templateID, buildID } = await ask('POST', '/v3/templates', { name: 'mine' })
  const ids: Record<string, string> = { sandboxID, secretID, webhookID, keyID, tokenID, templateID, buildID }
  ids.volumeID = volume.volumeID
  for (const [name, id] of Object.entries(ids)) assert.equal(typeof id, 'string', name)
  const found: string[] = []
  let asked = 0
  for (const { name, method, path, permission } of routes) {
    const names = [...path.matchAll(/:(\w+)/g)].map(([, each]) => each!)
    const isOfTeam = roles.some((role) => role === permission)
    if (!isOfTeam || names.length === 0 || !names.every((each) => each in ids || each === 'hash')) continue
    const url = names.reduce((text, each) => text.replace(`:${each}`, ids[each] ?? 'a'.repeat(64)), path)
    const bodies = [{ name: 'theirs', value: 'v', timeout: 60, steps: [], duration: 60 }, {}]
    for (const body of method === 'GET' || method === 'DELETE' ? [undefined] : bodies) {
      const { status, body: text } = await warren.ask(method, url, {
        headers: { 'x-api-key': otherKey },
        body,
      })
      asked++
      // The events and the log of a sandbox that the team does not have are empty lists.
      const isEmpty = status === 200 && /^(\[\]|\{"logs":\[\](,"logEntries":\[\])?\}|)$/.test(text)
      if (status < 400 && !isEmpty) found.push(`${name} → ${status} ${text}`)
    }
  }
  assert.deepEqual(found, [])
  assert.ok(asked > 50, `only ${asked} requests`)
  const left = await Promise.all([
    warren.ask('GET', `/sandboxes/${sandboxID}`),
    warren.ask('GET', `/secrets/${secretID}`),
    warren.ask('GET', `/volumes/${ids.volumeID}`),
    warren.ask('GET', `/events/webhooks/${webhookID}`),
    warren.ask('GET', `/templates/${templateID}`),
  ])
  assert.deepEqual(
    left.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  )
  assert.ok((await warren.ask('GET', '/api-keys')).body.includes(keyID))
})

it('a viewer sees a sandbox without the tokens by which it is entered', async () => {
  const sandboxID = await warren.create()
  const seenBy = async (role: Role) =>
    (await warren.ask('GET', `/sandboxes/${sandboxID}`, { headers: { 'x-api-key': keys.get(role) } })).json()
  assert.equal(typeof (await seenBy('member')).envdAccessToken, 'string')
  assert.equal((await seenBy('viewer')).sandboxID, sandboxID)
  assert.equal('envdAccessToken' in (await seenBy('viewer')), false)
})

it("a person's key does what their role allows now, and nothing once they have left", async () => {
  const { members, people } = stores
  const at = clock.now()
  await members.add({
    teamID: team.teamID,
    email: 'o@example.com',
    role: 'owner',
    addedBy: '',
    at,
    personID: 'o',
  })
  const claims = { issuer: 'https://id.test', subject: 'ada', email: 'ada@example.com', name: 'Ada' }
  const { personID } = await people.signIn(
    { ...claims, isOperator: false, memberships: [{ teamID: team.teamID, role: 'member' }] },
    at,
  )
  const { key } = await warren.teams.createKey(team.teamID, 'laptop', { ...grant, personID, role: 'owner' })
  const headers = { 'x-api-key': key }
  const make = () =>
    warren.ask('POST', '/secrets', { headers, body: { name: crypto.randomUUID(), value: 'v' } })
  const list = async () => (await warren.ask('GET', '/secrets', { headers })).status
  assert.equal((await make()).status, 201)
  assert.equal((await warren.ask('POST', '/events/webhooks', { headers, body: {} })).status, 403)
  const made = (await warren.ask('POST', '/v2/sandboxes', { headers, body: { templateID: 'base' } })).json()
  const owners = [made.sandboxID, await warren.create()].map((id) => stores.sandboxes.find(id))
  assert.deepEqual(
    (await Promise.all(owners)).map((row) => row?.ownerPersonID),
    [personID, undefined],
  )
  await members.setRole(team.teamID, personID, 'viewer')
  assert.deepEqual([(await make()).status, await list()], [403, 200])
  assert.match((await make()).json().message, /needs the role 'member' in the team, and yours is 'viewer'/)
  await members.remove(team.teamID, personID, at)
  assert.equal(await list(), 401)
})

it('a route that the table does not name cannot be added, nor one that asks for other credentials', () => {
  const hooks = {
    requireTeam: async () => {},
    requireAdmin: async () => {},
    requireSession: async () => {},
    requireAdminOrBearer: async () => {},
  }
  const app = Fastify()
  requirePermissions(app, hooks, { 'GET /known': 'viewer', 'GET /open': 'anybody' })
  const handler = async () => 'text'
  assert.throws(() => app.get('/unknown', handler), /does not say who may GET \/unknown/)
  assert.throws(() => app.get('/known', handler), /asks for other credentials/)
  assert.throws(() => app.get('/known', { onRequest: hooks.requireAdmin }, handler), /other credentials/)
  assert.throws(() => app.get('/open', { onRequest: hooks.requireTeam }, handler), /other credentials/)
  app.get('/known', { onRequest: [hooks.requireTeam] }, handler)
})

it('the table names no route that the API does not have', () => {
  const unknown = routes.filter(({ method, path }) => !warren.api.hasRoute({ method, url: path }))
  assert.deepEqual(unknown, [])
})
