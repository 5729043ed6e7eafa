/** What malformed and hostile requests get: the contract's status, a text that says what to do, nothing half-made. */
import assert from 'node:assert/strict'
import net from 'node:net'
import { after, before, describe, it } from 'node:test'
import { type ApiOptions, anyIsolation, joinWarren, type Warren } from '../support/warren.ts'

type Case = { title: string; path: string; status: number; says: RegExp } & ApiOptions

const unknownID = 'izzzzzzzzzzzzzzzzzzzz'
const create = (body: unknown) => ({ path: '/v2/sandboxes', method: 'POST', body })

const cases: Case[] = [
  { title: 'no key', path: '/v2/sandboxes', key: null, status: 401, says: /X-API-Key/ },
  {
    title: 'a key of the wrong form',
    path: '/v2/sandboxes',
    key: 'nonsense',
    status: 401,
    says: /Invalid API key/,
  },
  { title: 'an empty key', path: '/v2/sandboxes', key: '', status: 401, says: /Invalid API key|missing/ },
  {
    title: 'an unknown key',
    path: '/v2/sandboxes',
    key: `e2b_${'0'.repeat(40)}`,
    status: 401,
    says: /no team has this key/,
  },
  { title: 'an unknown path', path: '/v9/nothing', status: 404, says: /no matching operation/ },
  { title: 'a deprecated path', path: '/instances', status: 404, says: /deprecated/ },
  {
    title: 'JSON cut in half',
    path: '/v2/sandboxes',
    method: 'POST',
    rawBody: '{"templateID": "ba',
    status: 400,
    says: /Invalid request body/,
  },
  {
    title: 'a body that is not UTF-8',
    path: '/v2/sandboxes',
    method: 'POST',
    rawBody: Uint8Array.from([0x7b, 0xff, 0x7d]),
    status: 400,
    says: /UTF-8/,
  },
  {
    title: 'a body that poisons the prototype',
    path: '/v2/sandboxes',
    method: 'POST',
    rawBody: '{"templateID":"base","__proto__":{"isAdmin":true}}',
    status: 400,
    says: /Invalid request body/,
  },
  { title: 'no body', path: '/v2/sandboxes', method: 'POST', status: 400, says: /validation error/ },
  { title: 'an array', ...create([]), status: 400, says: /validation error/ },
  { title: 'no template', ...create({}), status: 400, says: /templateID/ },
  {
    title: 'a number as template',
    ...create({ templateID: 5 }),
    status: 400,
    says: /templateID must be string/,
  },
  {
    title: 'text as timeout',
    ...create({ templateID: 'base', timeout: '60' }),
    status: 400,
    says: /timeout/,
  },
  {
    title: 'a timeout of 0',
    ...create({ templateID: 'base', timeout: 0 }),
    status: 400,
    says: /greater than 0/,
  },
  {
    title: 'a negative timeout',
    ...create({ templateID: 'base', timeout: -1 }),
    status: 400,
    says: /timeout/,
  },
  { title: 'a fraction', ...create({ templateID: 'base', timeout: 1.5 }), status: 400, says: /integer/ },
  {
    title: 'a timeout past the team maximum',
    ...create({ templateID: 'base', timeout: 25 * 3600 }),
    status: 400,
    says: /cannot be greater than 24 hours/,
  },
  {
    title: 'metadata that is not text',
    ...create({ templateID: 'base', metadata: { a: 1 } }),
    status: 400,
    says: /metadata/,
  },
  {
    title: 'a NUL in the environment',
    ...create({ templateID: 'base', envVars: { A: 'x\u0000y' } }),
    status: 400,
    says: /envVars/,
  },
  { title: 'an unknown template', ...create({ templateID: 'nope' }), status: 404, says: /'nope' not found/ },
  {
    title: 'an unknown tag',
    ...create({ templateID: 'base:v9' }),
    status: 404,
    says: /tag 'v9' does not exist/,
  },
  {
    title: 'a bad template reference',
    ...create({ templateID: '../../etc' }),
    status: 400,
    says: /Invalid template reference/,
  },
  {
    title: 'a denied name',
    ...create({ templateID: 'base', network: { denyOut: ['a.test'] } }),
    status: 400,
    says: /invalid denied CIDR a.test/,
  },
  {
    title: 'a volume that is not there',
    ...create({ templateID: 'base', volumeMounts: [{ name: 'a', path: '/b' }] }),
    status: 404,
    says: /Volume "a" not found/,
  },
  {
    title: 'a bad idempotency key',
    ...create({ templateID: 'base' }),
    headers: { 'Idempotency-Key': 'UPPER' },
    status: 400,
    says: /Idempotency-Key/,
  },
  {
    title: 'a body over a mebibyte',
    ...create({ templateID: 'base', metadata: { a: 'x'.repeat(1024 * 1024) } }),
    status: 413,
    says: /too large/,
  },
  {
    title: 'a foreign id',
    path: `/sandboxes/${unknownID}`,
    status: 404,
    says: /doesn't exist or you don't have/,
  },
  { title: 'a malformed id', path: '/sandboxes/..%2Fadmin', status: 400, says: /Invalid sandbox ID/ },
  {
    title: 'killing a foreign id',
    path: `/sandboxes/${unknownID}`,
    method: 'DELETE',
    status: 404,
    says: /doesn't/,
  },
  {
    title: 'a timeout for a foreign id',
    path: `/sandboxes/${unknownID}/timeout`,
    body: { timeout: 5 },
    status: 404,
    says: /doesn't/,
  },
  {
    title: 'connect v1 without timeout',
    path: `/sandboxes/${unknownID}/connect`,
    body: {},
    status: 400,
    says: /timeout/,
  },
  { title: 'limit 0', path: '/v2/sandboxes?limit=0', status: 400, says: /limit/ },
  { title: 'limit 101', path: '/v2/sandboxes?limit=101', status: 400, says: /limit/ },
  { title: 'limit 1e99', path: '/v2/sandboxes?limit=1e99', status: 400, says: /limit/ },
  { title: 'limit NaN', path: '/v2/sandboxes?limit=NaN', status: 400, says: /limit/ },
  {
    title: 'a garbage cursor',
    path: '/v2/sandboxes?nextToken=garbage',
    status: 400,
    says: /Invalid next token/,
  },
  { title: 'an unknown state', path: '/v2/sandboxes?state=asleep', status: 400, says: /running or paused/ },
  { title: 'an unknown order', path: '/v2/sandboxes?order=up', status: 400, says: /order/ },
  {
    title: 'bad metadata',
    path: '/v2/sandboxes?metadata=%25zz',
    status: 400,
    says: /Error parsing metadata/,
  },
  { title: 'a tag in the filter', path: '/v2/sandboxes?template=base:x', status: 400, says: /without a tag/ },
  { title: 'the operator surface with a team key', path: '/admin/teams', status: 401, says: /X-Admin-Token/ },
]

describe('bad input', () => {
  let warren: Warren
  before(async () => {
    warren = await joinWarren(anyIsolation)
  })
  after(() => warren?.stop())

  for (const { title, path, status, says, ...options } of cases) {
    it(`${title} gets ${status}`, async () => {
      const answer = await warren.api(path, options)
      const body = (await answer.json()) as { code: number; message: string }
      assert.equal(answer.status, status, JSON.stringify(body))
      assert.equal(body.code, status)
      assert.match(body.message, says)
    })
  }

  it('no rejected request left a sandbox, and the server still works', async () => {
    const list = await warren.api('/v2/sandboxes')
    assert.deepEqual(await list.json(), [])
    assert.equal((await warren.api('/health')).status, 200)
  })

  it('a connection that is cut in the middle of a body leaves nothing behind', async () => {
    const { hostname, port } = new URL(warren.url)
    await new Promise<void>((done, fail) => {
      const socket = net.connect(Number(port), hostname, () => {
        socket.write(
          `POST /v2/sandboxes HTTP/1.1\r\nHost: ${hostname}\r\nX-API-Key: ${warren.apiKey}\r\n` +
            'Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"templateID":"base"',
          () => socket.destroy(),
        )
      })
      socket.on('close', () => done())
      socket.on('error', fail)
    })
    assert.deepEqual(await (await warren.api('/v2/sandboxes')).json(), [])
  })

  it('traffic for an ended sandbox gets 502 with the reason', async () => {
    const answer = await fetch(`${warren.url}/health`, {
      headers: { 'E2b-Sandbox-Id': unknownID, 'E2b-Sandbox-Port': '49983' },
    })
    assert.equal(answer.status, 502)
    assert.deepEqual(await answer.json(), {
      sandboxId: unknownID,
      message: 'The sandbox was not found',
      code: 502,
    })
  })

  it('a repeated idempotency key returns the first sandbox again, also at the same moment', async () => {
    const headers = { 'Idempotency-Key': `key-${Date.now()}` }
    const request = { body: { templateID: 'base', timeout: 60 }, headers }
    const answers = await Promise.all([1, 2, 3].map(() => warren.api('/v2/sandboxes', request)))
    const later = await warren.api('/v2/sandboxes', request)
    const ids = new Set<string>()
    for (const answer of [...answers, later]) {
      assert.equal(answer.status, 201)
      ids.add(((await answer.json()) as { sandboxID: string }).sandboxID)
    }
    assert.equal(ids.size, 1)
    const different = await warren.api('/v2/sandboxes', {
      ...request,
      body: { templateID: 'base', timeout: 61 },
    })
    assert.equal(different.status, 422)
    assert.equal(
      ((await different.json()) as { error_code: string }).error_code,
      'idempotency_request_mismatch',
    )
    await warren.api(`/sandboxes/${[...ids][0]}`, { method: 'DELETE' })
  })

  it('parallel creates cannot exceed the limit of the team together', async () => {
    const operator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
    const limit = (maxSandboxes: number) =>
      warren.api(`/admin/teams/${warren.team}/limits`, {
        ...operator,
        method: 'PATCH',
        body: { maxSandboxes },
      })
    assert.equal((await limit(3)).status, 200)
    try {
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => warren.api('/v2/sandboxes', { body: { templateID: 'base' } })),
      )
      const statuses = answers.map((answer) => answer.status).sort()
      assert.deepEqual(statuses, [201, 201, 201, 429, 429, 429, 429, 429])
      const refused = answers.find((answer) => answer.status === 429)!
      assert.equal(refused.headers.get('should-retry'), 'false')
      for (const answer of answers) {
        const { sandboxID } = (await answer.json()) as { sandboxID?: string }
        if (sandboxID) await warren.api(`/sandboxes/${sandboxID}`, { method: 'DELETE' })
      }
    } finally {
      await limit(100)
    }
  })

  it('describes itself as OpenAPI 3.1', async () => {
    const document = (await (await warren.api('/openapi.json', { key: null })).json()) as {
      openapi: string
      paths: Record<string, unknown>
    }
    assert.equal(document.openapi, '3.1.0')
    assert.ok(document.paths['/v2/sandboxes/{sandboxID}/connect'])
  })
})
