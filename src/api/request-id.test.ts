import assert from 'node:assert/strict'
import { test } from 'node:test'
import { adminToken, openApi } from '../../test/support/api.ts'
import { silentLog } from '../lib/log.ts'
import { currentRequestID } from '../lib/request-id.ts'
import type { AnsweredRequest } from './request-id.ts'

test('every answer has a request id: a success, a failure, a preflight, an unknown path', async () => {
  await using api = await openApi()
  const answers = [
    await api.ask('GET', '/v2/sandboxes'),
    await api.ask('GET', '/nowhere'),
    await api.ask('GET', '/sandboxes/%zz'),
    await api.ask('GET', '/v2/sandboxes', { headers: { 'x-api-key': undefined } }),
    await api.ask('POST', '/v2/sandboxes', { body: { templateID: 7 } }),
  ]
  const ids = answers.map(({ headers }) => headers['x-request-id'])
  for (const id of ids) assert.match(String(id), /^[0-9a-f]{16}$/)
  assert.equal(new Set(ids).size, ids.length)
  assert.deepEqual(
    answers.map(({ headers }) => headers['x-e2b-trace-id']),
    ids,
  )
  const preflight = await api.api.inject({ method: 'OPTIONS', url: '/v2/sandboxes' })
  assert.match(String(preflight.headers['x-request-id']), /^[0-9a-f]{16}$/)
  assert.match(String(preflight.headers['access-control-expose-headers']), /X-Request-Id,X-E2B-Trace-ID/)
})

test("a client's own id is on its answer", async () => {
  await using api = await openApi()
  const answer = await api.ask('GET', '/v2/sandboxes', { headers: { 'x-request-id': 'mine-1' } })
  assert.equal(answer.headers['x-request-id'], 'mine-1')
})

test('log lines of a request, also those after its body was read, carry its id', async () => {
  const seen: (string | undefined)[] = []
  const log = { ...silentLog, info: () => void seen.push(currentRequestID()) }
  await using api = await openApi({ log })
  const headers = { 'x-request-id': 'mine-2' }
  const body = { templateID: 'base' }
  assert.equal((await api.ask('POST', '/v2/sandboxes', { headers, body })).status, 201)
  assert.ok(seen.length > 0)
  assert.deepEqual([...new Set(seen)], ['mine-2'])
})

test('each answer is reported with the pattern of its route, never with the values in its path', async () => {
  const answered: AnsweredRequest[] = []
  await using api = await openApi({ onAnswered: (one) => answered.push(one) })
  await api.ask('GET', '/sandboxes/inone')
  await api.ask('GET', '/nowhere')
  const reported = answered.map(({ method, route, status }) => ({ method, route, status }))
  assert.deepEqual(reported, [
    { method: 'GET', route: '/sandboxes/:sandboxID', status: 404 },
    { method: 'GET', route: undefined, status: 404 },
  ])
  assert.ok(answered[0]!.teamID)
})

test('the metrics are for the operator, who may send the token as Prometheus does', async () => {
  await using api = await openApi()
  assert.equal((await api.ask('GET', '/metrics')).status, 401)
  const wrong = { authorization: 'Bearer wrong' }
  assert.equal((await api.ask('GET', '/metrics', { headers: wrong })).status, 401)
  for (const headers of [{ authorization: `Bearer ${adminToken}` }, { 'x-admin-token': adminToken }]) {
    const answer = await api.ask('GET', '/metrics', { headers })
    assert.equal(answer.status, 200)
    assert.match(answer.body, /^warren_info 1/)
  }
})

test('a server that closes is alive and not ready', async () => {
  let reason: string | undefined
  await using api = await openApi({
    health: { whyNotServing: () => reason, databaseProblem: async () => undefined },
  })
  assert.deepEqual((await api.ask('GET', '/health/ready')).json(), { ready: true })
  reason = 'The server is closing.'
  const answer = await api.ask('GET', '/health/ready', { headers: { 'x-api-key': undefined } })
  assert.equal(answer.status, 503)
  assert.deepEqual(answer.json(), { code: 503, message: reason })
  assert.equal((await api.ask('GET', '/health')).status, 200)
})

test('a server without its database is ready and names the outage, which has a check of its own', async () => {
  let problem: string | undefined
  await using api = await openApi({
    health: { whyNotServing: () => undefined, databaseProblem: async () => problem },
  })
  const ask = async (path: string) => {
    const { status, json } = await api.ask('GET', path, { headers: { 'x-api-key': undefined } })
    return { status, body: json() }
  }
  assert.deepEqual(await ask('/health/database'), { status: 200, body: { ready: true } })
  problem = 'cannot be reached since 2026-01-01T00:00:00.000Z'
  assert.deepEqual(await ask('/health/ready'), {
    status: 200,
    body: { ready: true, conditions: { database: problem } },
  })
  assert.deepEqual(await ask('/health/database'), {
    status: 503,
    body: { code: 503, message: `The database ${problem}.` },
  })
})
