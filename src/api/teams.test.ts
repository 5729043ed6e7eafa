import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { maxLiveKeys } from '../core/team/key-limit.ts'

type Api = Awaited<ReturnType<typeof openApi>>
const byToken = (token: string, more = {}) => ({
  headers: { 'x-api-key': undefined, authorization: `Bearer ${token}`, ...more },
})

async function newToken(warren: Api): Promise<{ id: string; token: string }> {
  return (await warren.ask('POST', '/access-tokens', { body: { name: 'laptop' } })).json()
}

describe('access tokens over the API', () => {
  it('open the API for their team, and come with an API key that ends with them', async () => {
    await using warren = await openApi()
    const { id, token } = await newToken(warren)
    assert.match(token, /^sk_e2b_[0-9a-f]{40}$/)
    const [team] = (await warren.ask('GET', '/teams', byToken(token))).json()
    assert.deepEqual([team.teamID, team.isDefault], [warren.fixture.team.teamID, true])
    const byKey = { headers: { 'x-api-key': team.apiKey } }
    assert.equal((await warren.ask('GET', '/v2/sandboxes', byKey)).status, 200)
    assert.equal((await warren.ask('GET', '/v2/sandboxes', byToken(token))).status, 200)
    assert.equal((await warren.ask('DELETE', `/access-tokens/${id}`)).status, 204)
    assert.equal((await warren.ask('DELETE', `/access-tokens/${id}`)).status, 404)
    assert.equal((await warren.ask('GET', '/v2/sandboxes', byKey)).status, 401)
    assert.equal((await warren.ask('GET', '/teams', byToken(token))).status, 401)
  })

  it('are rejected with the reason if they are malformed, unknown, or of another team than the named one', async () => {
    await using warren = await openApi()
    const { token } = await newToken(warren)
    const malformed = await warren.ask('GET', '/teams', byToken('sk_e2b_x'))
    assert.deepEqual([malformed.status, /40 hexadecimal/.test(malformed.json().message)], [401, true])
    const unknown = await warren.ask('GET', '/teams', byToken(`sk_e2b_${'0'.repeat(40)}`))
    assert.equal(unknown.status, 401)
    const other = await warren.teams.createTeam('other')
    const foreign = await warren.ask('GET', '/teams', byToken(token, { 'x-team-id': other.teamID }))
    assert.equal(foreign.status, 403)
  })
})

describe('API keys of the own team', () => {
  it('are made, listed without the key, renamed and revoked', async () => {
    await using warren = await openApi()
    const made = (await warren.ask('POST', '/api-keys', { body: { name: 'ci' } })).json()
    const asKey = { headers: { 'x-api-key': made.key } }
    assert.equal((await warren.ask('GET', '/v2/sandboxes', asKey)).status, 200)
    const renamed = await warren.ask('PATCH', `/api-keys/${made.id}`, { body: { name: 'robot' } })
    assert.deepEqual([renamed.status, renamed.body, renamed.headers['content-length']], [200, '', '0'])
    const listed = (await warren.ask('GET', '/api-keys')).json()
    assert.deepEqual(listed.map(({ name }: { name: string }) => name).sort(), ['robot', 'test'])
    assert.ok(!JSON.stringify(listed).includes(made.key))
    assert.equal((await warren.ask('DELETE', `/api-keys/${made.id}`)).status, 204)
    assert.equal((await warren.ask('GET', '/v2/sandboxes', asKey)).status, 401)
    assert.equal((await warren.ask('GET', '/api-keys')).json().length, 1)
    for (const method of ['PATCH', 'DELETE'] as const) {
      const body = method === 'PATCH' ? { body: { name: 'x' } } : {}
      assert.equal((await warren.ask(method, `/api-keys/${made.id}`, body)).status, 404)
    }
    assert.equal((await warren.ask('POST', '/api-keys', { body: { name: '' } })).status, 400)
  })

  it('cannot touch the keys of another team', async () => {
    await using warren = await openApi()
    const other = await warren.teams.createTeam('other')
    const { record } = await warren.teams.createKey(other.teamID, 'theirs')
    const path = `/api-keys/${record.keyID}`
    assert.equal((await warren.ask('DELETE', path)).status, 404)
    assert.equal((await warren.ask('PATCH', path, { body: { name: 'mine' } })).status, 404)
    assert.equal((await warren.teams.listLiveKeys(other.teamID))[0]?.name, 'theirs')
  })
})

describe('the usage of a team', () => {
  it('is sampled, read over time, and returned with its maximum', async () => {
    await using warren = await openApi()
    const { clock, usage, team } = warren.fixture
    await warren.create()
    await warren.create()
    await usage.sample()
    const path = `/teams/${team.teamID}/metrics`
    const start = Math.floor(clock.now() / 1000)
    clock.advance(60_000)
    const [sample, ...more] = (await warren.ask('GET', `${path}?end=${start}`)).json()
    assert.deepEqual([sample.concurrentSandboxes, more], [2, []])
    assert.equal(sample.sandboxStartRate, 2 / 30)
    assert.equal(Date.parse(sample.timestamp), sample.timestampUnix * 1000)
    const highest = (await warren.ask('GET', `${path}/max?metric=concurrent_sandboxes`)).json()
    assert.deepEqual([highest.value, highest.timestampUnix], [2, sample.timestampUnix])
    const later = Math.ceil(clock.now() / 1000) + 60
    assert.deepEqual((await warren.ask('GET', `${path}?start=${later}&end=${later + 1}`)).json(), [])
    assert.equal((await warren.ask('GET', `${path}?start=2&end=1`)).status, 400)
    assert.equal((await warren.ask('GET', `${path}/max?metric=moons`)).status, 400)
    assert.equal((await warren.ask('GET', `/teams/${team.teamID}x/metrics`)).status, 403)
    const counts = (await warren.ask('GET', '/admin/sandboxes/running-counts', warren.asAdmin)).json()
    assert.deepEqual(counts, { [team.teamID]: 2 })
  })
})

describe('the present use of a team', () => {
  it('is told before it is sampled, in periods that include the present', async () => {
    await using warren = await openApi()
    const { clock, team } = warren.fixture
    const path = `/teams/${team.teamID}/metrics`
    const highest = async (metric: string) => (await warren.ask('GET', `${path}/max?metric=${metric}`)).json()
    assert.equal((await highest('concurrent_sandboxes')).value, 0)
    assert.deepEqual((await warren.ask('GET', path)).json(), [])
    await warren.create()
    await warren.create()
    clock.advance(15_000)
    const now = Math.floor(clock.now() / 1000)
    const { value, timestampUnix } = await highest('concurrent_sandboxes')
    assert.deepEqual([value, timestampUnix], [2, now])
    assert.equal((await highest('sandbox_start_rate')).value, 2 / 30)
    assert.equal((await warren.ask('GET', path)).json().length, 1)
    assert.deepEqual((await warren.ask('GET', `${path}?start=0&end=${now - 1}`)).json(), [])
    await warren.ask('POST', `/admin/teams/${team.teamID}/sandboxes/kill`, warren.asAdmin)
    assert.deepEqual((await warren.ask('GET', path)).json(), [])
  })

  it('rejects periods that end later than any calendar of a database', async () => {
    await using warren = await openApi()
    const path = `/teams/${warren.fixture.team.teamID}/metrics`
    const last = Date.parse('2299-12-31T23:59:59Z') / 1000
    for (const url of [`${path}?`, `${path}/max?metric=concurrent_sandboxes&`]) {
      const answer = await warren.ask('GET', `${url}start=0&end=${last + 1}`)
      assert.equal(answer.status, 400)
      assert.match(answer.json().message, /^end time cannot be after 2299/)
      assert.equal((await warren.ask('GET', `${url}start=${last + 1}&end=${last + 2}`)).status, 400)
      assert.equal((await warren.ask('GET', `${url}start=0&end=${last}`)).status, 200)
    }
  })
})

describe('the operator', () => {
  it('kills all sandboxes of one team and cancels its builds', async () => {
    await using warren = await openApi()
    const { team } = warren.fixture
    await warren.create()
    await warren.create()
    const other = await warren.teams.createTeam('other')
    const none = `/admin/teams/${other.teamID}/sandboxes/kill`
    assert.deepEqual((await warren.ask('POST', none, warren.asAdmin)).json(), {
      killedCount: 0,
      failedCount: 0,
    })
    const kill = await warren.ask('POST', `/admin/teams/${team.teamID}/sandboxes/kill`, warren.asAdmin)
    assert.deepEqual(kill.json(), { killedCount: 2, failedCount: 0 })
    assert.deepEqual((await warren.ask('GET', '/v2/sandboxes')).json(), [])
    const { templateID, buildID } = (
      await warren.ask('POST', '/v3/templates', { body: { name: 'waits' } })
    ).json()
    const cancel = await warren.ask('POST', `/admin/teams/${team.slug}/builds/cancel`, warren.asAdmin)
    assert.deepEqual(cancel.json(), { cancelledCount: 1, failedCount: 0 })
    const { status } = (await warren.ask('GET', `/templates/${templateID}/builds/${buildID}/status`)).json()
    assert.equal(status, 'error')
  })

  it('deletes a team, and needs force for one with live sandboxes', async () => {
    await using warren = await openApi()
    const { team } = warren.fixture
    await warren.create()
    await warren.ask('POST', '/v3/templates', { body: { name: 'mine' } })
    const path = `/admin/teams/${team.teamID}`
    const refused = await warren.ask('DELETE', path, warren.asAdmin)
    assert.equal(refused.status, 409)
    assert.match(refused.json().message, /1 sandboxes, 1 templates .* --force/)
    assert.equal((await warren.ask('GET', '/v2/sandboxes')).json().length, 1)
    assert.equal((await warren.ask('DELETE', `${path}?force=true`, warren.asAdmin)).status, 204)
    assert.equal((await warren.ask('GET', '/v2/sandboxes')).status, 401)
    assert.equal((await warren.ask('DELETE', path, warren.asAdmin)).status, 404)
    assert.deepEqual(await warren.fixture.driver.list(), [])
  })
})

describe('the limit of API keys', () => {
  it('counts keys and tokens together, also for requests at the same time, until some are revoked', async () => {
    await using warren = await openApi()
    const make = (kind: string) => warren.ask('POST', kind, { body: { name: 'one more' } })
    // One is there already.
    const kinds = Array.from({ length: maxLiveKeys + 20 }, () => '/api-keys')
    const answers = await Promise.all(kinds.map(make))
    const made = answers.filter(({ status }) => status === 201)
    assert.equal(made.length, maxLiveKeys - 1)
    for (const path of ['/api-keys', '/access-tokens']) {
      const over = await make(path)
      assert.deepEqual([over.status, over.headers['should-retry']], [429, 'false'])
      assert.match(over.json().message, /at most 200 keys and access tokens: revoke/)
    }
    assert.equal((await warren.ask('DELETE', `/api-keys/${made[0]!.json().id}`)).status, 204)
    assert.equal((await make('/access-tokens')).status, 201)
    assert.equal((await make('/api-keys')).status, 429)
  })
})

describe('the limit of requests', () => {
  it('is shown in headers, rejects with Retry-After, and counts all keys of a team together', async () => {
    await using warren = await openApi({ requestsPerMinute: 2 })
    const { key } = await warren.teams.createKey(warren.fixture.team.teamID, 'second')
    const other = await warren.teams.createTeam('other')
    const { key: otherKey } = await warren.teams.createKey(other.teamID, 'theirs')
    const asked = async (apiKey: string) =>
      (await warren.ask('GET', '/v2/sandboxes', { headers: { 'x-api-key': apiKey } })).status
    const first = await warren.ask('GET', '/v2/sandboxes')
    assert.deepEqual(
      ['limit', 'remaining', 'reset'].map((name) => first.headers[`ratelimit-${name}`]),
      ['2', '1', '60'],
    )
    assert.equal(await asked(key), 200)
    const over = await warren.ask('GET', '/v2/sandboxes')
    assert.deepEqual([over.status, over.headers['retry-after']], [429, '60'])
    assert.match(over.json().message, /Too many requests of this team: try again in 60 s/)
    assert.deepEqual([await asked(key), await asked(otherKey)], [429, 200])
    warren.fixture.clock.advance(60_000)
    assert.equal((await warren.ask('GET', '/v2/sandboxes')).status, 200)
  })
})
