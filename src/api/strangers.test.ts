/** What somebody without a key, and another team, get from every operation of the OpenAPI document. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { newSandboxID, newUUID } from '../lib/ids.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
type Operation = { method: Method; path: string }

/** Operations for load balancers and health checks. */
const open = ['GET /health', 'GET /health/database', 'GET /health/ready']
/** Whose links are signed: who has no signature gets 403, as from the object stores that clients know. */
const signed = ['PUT /build-files/{teamID}/{hash}']
/** What the operations want beside the id, so that none is rejected for its form. */
const query = 'path=x&expires=1&size=1&signature=x'
const bodies: Record<string, object> = {
  '/dashboard-links/redeem': { code: '0'.repeat(64) },
  '/sandboxes/{sandboxID}/timeout': { timeout: 60 },
  '/sandboxes/{sandboxID}/connect': { timeout: 60 },
  '/v2/sandboxes/{sandboxID}/connect': { timeout: 60 },
  '/secrets/{secretID}': { value: 'another' },
  '/api-keys/{keyID}': { name: 'another' },
}

/** Volumes' contents want a token of their own, so a key gets 401; 400 would mean that the test asked in a wrong form. */
const refusals = [401, 404]
const emptyBodies = ['[]', '{"logs":[]}', '{"logs":[],"logEntries":[]}']

describe('a stranger', () => {
  let warren: Awaited<ReturnType<typeof openApi>>
  let operations: Operation[]
  before(async () => {
    warren = await openApi()
    const { paths } = (await warren.ask('GET', '/openapi.json')).json() as { paths: Record<string, object> }
    operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => ({ method: method.toUpperCase() as Method, path })),
    )
  })
  after(() => warren[Symbol.asyncDispose]())

  async function askAs(key: string | undefined, { method, path }: Operation, id: string) {
    const hasBody = method !== 'GET' && method !== 'DELETE'
    const { status, body } = await warren.ask(method, `${path.replaceAll(/\{\w+\}/g, id)}?${query}`, {
      headers: { 'x-api-key': key },
      ...(hasBody && { body: bodies[path] ?? {} }),
    })
    return { status, body: body.replaceAll(id, 'ID') }
  }

  it('without a key gets 401 from every operation except health checks', async () => {
    const answers = await Promise.all(
      operations.map(async (operation) => {
        const { status } = await askAs(undefined, operation, 'x')
        return { call: `${operation.method} ${operation.path}`, status }
      }),
    )
    const served = answers.filter(({ status }) => status !== 401).map(({ call }) => call)
    assert.deepEqual(served.sort(), [...open, ...signed].sort())
  })

  it('with a key of another team gets the same answer for my things as for missing ones', async () => {
    const { key, record } = await warren.teams.createKey(warren.fixture.team.teamID, 'mine')
    const other = await warren.teams.createTeam('Stranger')
    const theirs = (await warren.teams.createKey(other.teamID, 'theirs')).key
    const made = async (path: string, body: object) =>
      (await warren.ask('POST', path, { headers: { 'x-api-key': key }, body })).json()
    const mine: Record<string, { id: string; none: string }> = {
      sandboxID: { id: await warren.create(), none: newSandboxID() },
      secretID: { id: (await made('/secrets', { name: 'mine', value: 'x' })).secretID, none: newUUID() },
      volumeID: { id: (await made('/volumes', { name: 'mine' })).volumeID, none: newUUID() },
      keyID: { id: record.keyID, none: newUUID() },
    }
    const before = await warren.fixture.stores.sandboxes.find(mine.sandboxID!.id)
    for (const operation of operations.filter(({ path }) => !path.startsWith('/admin/'))) {
      const named = mine[/\{(\w+)\}/.exec(operation.path)?.[1] ?? '']
      if (!named) continue
      const call = `${operation.method} ${operation.path}`
      assert.ok(named.id, call)
      const [found, none] = [
        await askAs(theirs, operation, named.id),
        await askAs(theirs, operation, named.none),
      ]
      assert.deepEqual(found, none, call)
      const isNothing =
        found.status === 200 ? emptyBodies.includes(found.body) : refusals.includes(found.status)
      assert.ok(isNothing, `${call}: ${JSON.stringify(found)}`)
    }
    assert.deepEqual(await warren.fixture.stores.sandboxes.find(mine.sandboxID!.id), before)
  })
})
