import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'

describe('creating over the API', () => {
  it('answers with everything that a client needs to reach the sandbox', async () => {
    await using warren = await openApi()
    const answer = await warren.ask('POST', '/sandboxes', { body: { templateID: 'base' } })
    assert.equal(answer.status, 201)
    const { sandboxID, envdAccessToken, ...rest } = answer.json()
    assert.match(sandboxID, /^i[a-z0-9]{20}$/)
    assert.match(envdAccessToken, /^[0-9a-f]{64}$/)
    assert.deepEqual(rest, {
      templateID: 'basetemplate',
      clientID: '6532622b',
      envdVersion: '0.6.13',
      alias: 'base',
      domain: 'localhost:3000',
    })
  })

  it('defaults to 15 seconds in v1 and 300 in v2', async () => {
    await using warren = await openApi()
    const now = warren.fixture.clock.now()
    for (const [path, seconds] of [
      ['/sandboxes', 15],
      ['/v2/sandboxes', 300],
    ] as const) {
      const { sandboxID } = (await warren.ask('POST', path, { body: { templateID: 'base' } })).json()
      const detail = (await warren.ask('GET', `/sandboxes/${sandboxID}`)).json()
      assert.equal(Date.parse(detail.endAt), now + seconds * 1000)
    }
  })

  it('gives a traffic token only for sandboxes that are not open to everyone', async () => {
    await using warren = await openApi()
    const body = { templateID: 'base', network: { allowPublicTraffic: false } }
    const { trafficAccessToken } = (await warren.ask('POST', '/v2/sandboxes', { body })).json()
    assert.match(trafficAccessToken, /^[0-9a-f]{64}$/)
  })

  it("names the operator's domain, and no domain to a client that used another address", async () => {
    await using own = await openApi({ domain: 'sandboxes.test:8443' })
    const { domain } = (await own.ask('POST', '/v2/sandboxes', { body: { templateID: 'base' } })).json()
    assert.equal(domain, 'sandboxes.test:8443')
    await using bare = await openApi()
    const headers = { host: '192.0.2.1:3000' }
    const far = await bare.ask('POST', '/v2/sandboxes', { body: { templateID: 'base' }, headers })
    assert.equal(far.json().domain, null)
  })

  it('rejects options that are not supported, each with its reason', async () => {
    await using warren = await openApi()
    const refused: [object, RegExp][] = [
      [{ autoPauseMemory: false }, /together with autoPause/],
      [{ autoPause: true, autoPauseMemory: false, autoResume: { enabled: true } }, /cannot be combined/],
      [{ iam: { tokens: { a: {} } } }, /iam is not available/],
      [
        { secure: false, network: { allowPublicTraffic: false } },
        /unless you enable secure envd access via 'secure' flag/,
      ],
    ]
    for (const [options, says] of refused) {
      const answer = await warren.ask('POST', '/v2/sandboxes', { body: { templateID: 'base', ...options } })
      assert.equal(answer.status, 400)
      assert.match(answer.json().message, says)
    }
    assert.deepEqual(await warren.fixture.driver.list(), [])
  })

  it('returns no token for a sandbox with `secure: false`, if the operator allows that', async () => {
    await using warren = await openApi({ allowInsecureSandboxes: true })
    const make = async (options: object) => {
      const answer = await warren.ask('POST', '/sandboxes', { body: { templateID: 'base', ...options } })
      assert.equal(answer.status, 201)
      const { sandboxID, envdAccessToken } = answer.json()
      const detail = (await warren.ask('GET', `/sandboxes/${sandboxID}`)).json()
      assert.equal(detail.envdAccessToken, envdAccessToken)
      return envdAccessToken
    }
    assert.equal(await make({ secure: false }), undefined)
    assert.equal(typeof (await make({})), 'string')
    assert.deepEqual(warren.fixture.agent.secured, [false, true])
    const body = { templateID: 'base', secure: false, network: { allowPublicTraffic: false } }
    const answer = await warren.ask('POST', '/sandboxes', { body })
    assert.equal(answer.status, 400)
    assert.match(answer.json().message, /without public access unless you enable secure/)
  })

  it('gives a token also for secure: false, unless the operator allows sandboxes without', async () => {
    await using warren = await openApi()
    const answer = await warren.ask('POST', '/sandboxes', { body: { templateID: 'base', secure: false } })
    assert.equal(answer.status, 201)
    assert.equal(typeof answer.json().envdAccessToken, 'string')
    assert.deepEqual(warren.fixture.agent.secured, [true])
  })

  it('rejects an invalid network with the messages that clients know', async () => {
    await using warren = await openApi()
    const refused: [object, string | RegExp][] = [
      [{ allowOut: ['::1'] }, 'invalid allowed address ::1'],
      [{ denyOut: ['a.test'] }, 'invalid denied CIDR a.test'],
      [{ allowOut: ['a.test'] }, /block all other traffic/],
      [{ dnsServers: ['a.test'] }, /invalid DNS server a.test/],
      [{ httpsPorts: [49983] }, /the agent's own/],
      [{ maskRequestHost: 'a b' }, /invalid maskRequestHost a b/],
      [{ egressProxy: { address: 'a' } }, /invalid egress proxy address a/],
      [{ rules: { 'a.test': [{ transform: { headers: { Host: 'b' } } }] } }, /may not set host/],
      [{ allowOut: 'a' }, /^validation error: /],
      [{ rules: { 'a.test': 1 } }, /^validation error: /],
    ]
    const body = { templateID: 'base' }
    const { sandboxID } = (await warren.ask('POST', '/v2/sandboxes', { body })).json()
    for (const [network, says] of refused) {
      const create = await warren.ask('POST', '/v2/sandboxes', { body: { ...body, network } })
      const put = await warren.ask('PUT', `/sandboxes/${sandboxID}/network`, { body: network })
      const answers = 'httpsPorts' in network || 'maskRequestHost' in network ? [create] : [create, put]
      for (const answer of answers) {
        assert.equal(answer.status, 400)
        if (typeof says === 'string') assert.equal(answer.json().message, says)
        else assert.match(answer.json().message, says)
      }
    }
    assert.equal((await warren.fixture.driver.list()).length, 1)
  })

  it('shows the network as it was configured, without secrets, and an update replaces it as a whole', async () => {
    await using warren = await openApi()
    const tls = { enabled: true, serverName: 'a.test' }
    const egressProxy = { address: '198.51.100.1:1080', username: 'u', password: 'hidden', tls }
    const network = { egressProxy, denyOut: ['1.2.3.4'], allowPublicTraffic: false, httpsPorts: [8443] }
    const body = { templateID: 'base', network, allow_internet_access: true }
    const { sandboxID } = (await warren.ask('POST', '/v2/sandboxes', { body })).json()
    const show = async () => (await warren.ask('GET', `/sandboxes/${sandboxID}`)).json()
    const { password: _, ...proxy } = egressProxy
    assert.deepEqual((await show()).network, { ...network, egressProxy: proxy })
    const put = (update: object) => warren.ask('PUT', `/sandboxes/${sandboxID}/network`, { body: update })
    assert.equal((await put({ allowOut: ['5.6.7.8'], allow_internet_access: false })).status, 204)
    const options = { allowPublicTraffic: false, httpsPorts: [8443] }
    const changed = await show()
    assert.deepEqual(changed.network, { ...options, allowOut: ['5.6.7.8'] })
    assert.equal(changed.allowInternetAccess, false)
    assert.equal((await put({})).status, 204)
    assert.deepEqual((await show()).network, options)
    assert.equal((await warren.ask('PUT', '/sandboxes/nosuchsandbox/network', { body: {} })).status, 404)
  })

  it('leaves out network fields that the client did not set, because some clients cannot read null', async () => {
    await using warren = await openApi()
    const nothing = { egressProxy: null, allowOut: null, denyOut: null, dnsServers: null, httpsPorts: null }
    const rules = { 'a.test': [{ transform: null }] }
    const said = { allowPublicTraffic: false, rules: { 'a.test': [{}] } }
    for (const [network, shown] of [
      [{ ...nothing, rules: null, allowPublicTraffic: null, maskRequestHost: null }, {}],
      [{ ...nothing, rules, allowPublicTraffic: false }, said],
    ]) {
      const id = await warren.create({ network })
      assert.deepEqual((await warren.ask('GET', `/sandboxes/${id}`)).json().network, shown)
    }
  })

  it('accepts fields that only clients use, and fields that old clients always send', async () => {
    await using warren = await openApi()
    const old = {
      timeout: 300,
      secure: true,
      allow_internet_access: true,
      autoPause: false,
      metadata: {},
      envVars: {},
    }
    const body = { templateID: 'base', ...old, mcp: { server: {} }, network: null, unknown: 1 }
    assert.equal((await warren.ask('POST', '/sandboxes', { body })).status, 201)
  })
})

describe('lists', () => {
  it('are paged newest first, with the next cursor in a header until the last page', async () => {
    await using warren = await openApi()
    const made: string[] = []
    for (let at = 0; at < 3; at++) {
      made.unshift(await warren.create())
      warren.fixture.clock.advance(10)
    }
    const first = await warren.ask('GET', '/v2/sandboxes?limit=2')
    const next = first.headers['x-next-token']
    assert.equal(first.headers['x-total-running'], '3')
    const second = await warren.ask('GET', `/v2/sandboxes?limit=2&nextToken=${next}`)
    assert.equal(second.headers['x-next-token'], undefined)
    const ids = [...first.json(), ...second.json()].map((item: { sandboxID: string }) => item.sandboxID)
    assert.deepEqual(ids, made)
    const ascending = await warren.ask('GET', '/v2/sandboxes?order=asc')
    assert.deepEqual(
      ascending.json().map((item: { sandboxID: string }) => item.sandboxID),
      made.toReversed(),
    )
    const crossed = await warren.ask('GET', `/v2/sandboxes?order=asc&nextToken=${next}`)
    assert.equal(crossed.status, 400)
  })

  it('are filtered by metadata in both encodings, by state, template and start', async () => {
    await using warren = await openApi()
    const odd = await warren.create({ metadata: { 'k y': 'v&=', b: 'c' } })
    await warren.create({ metadata: { b: 'c' } })
    const ids = async (query: string) =>
      (await warren.ask('GET', `/v2/sandboxes?${query}`))
        .json()
        .map((item: { sandboxID: string }) => item.sandboxID)
    assert.deepEqual(await ids('metadata=k%252520y%3Dv%252526%25253D%26b%3Dc'), [odd])
    assert.equal((await ids('metadata=b%3Dc')).length, 2)
    assert.deepEqual(await ids('metadata=b%3Dother'), [])
    assert.deepEqual(await ids('state=paused'), [])
    assert.equal((await ids('state=running,paused')).length, 2)
    assert.equal((await ids('template=base')).length, 2)
    assert.deepEqual(await ids('template=nothing'), [])
    assert.deepEqual(await ids('startedAfter=2099-01-01T00:00:00Z'), [])
  })

  it('of v1 show running sandboxes without pages', async () => {
    await using warren = await openApi()
    const id = await warren.create()
    const listed = (await warren.ask('GET', '/sandboxes')).json()
    assert.deepEqual(
      listed.map((item: { sandboxID: string }) => item.sandboxID),
      [id],
    )
  })
})

describe('other verbs', () => {
  it('take the older form of an id, with the client id behind it', async () => {
    await using warren = await openApi()
    const id = await warren.create()
    assert.equal((await warren.ask('GET', `/sandboxes/${id}-6532622b`)).status, 200)
  })

  it('send no body where there is nothing to return, with Content-Length 0', async () => {
    await using warren = await openApi()
    const id = await warren.create()
    const timeout = await warren.ask('POST', `/sandboxes/${id}/timeout`, { body: { timeout: 10 } })
    assert.deepEqual([timeout.status, timeout.body], [204, ''])
    const refresh = await warren.ask('POST', `/sandboxes/${id}/refreshes`)
    assert.deepEqual([refresh.status, refresh.body], [204, ''])
    const kill = await warren.ask('DELETE', `/sandboxes/${id}`)
    assert.deepEqual([kill.status, kill.body], [204, ''])
    assert.equal((await warren.ask('DELETE', `/sandboxes/${id}`)).status, 404)
  })

  it('connect with no body in v2, and only with a timeout in v1', async () => {
    await using warren = await openApi()
    const id = await warren.create()
    assert.equal((await warren.ask('POST', `/v2/sandboxes/${id}/connect`)).status, 200)
    assert.equal((await warren.ask('POST', `/v2/sandboxes/${id}/connect`, { body: {} })).status, 200)
    assert.equal((await warren.ask('POST', `/sandboxes/${id}/connect`, { body: { timeout: 5 } })).status, 200)
    assert.equal((await warren.ask('POST', `/sandboxes/${id}/connect`, { body: {} })).status, 400)
  })
})

describe('the records of a sandbox', () => {
  it('include its metrics, by range and the newest, for its own team only', async () => {
    await using warren = await openApi()
    const id = await warren.create()
    const sizes = {
      memoryUsedBytes: 1,
      memoryCacheBytes: 2,
      memoryTotalBytes: 3,
      diskUsedBytes: 4,
      diskTotalBytes: 5,
    }
    const sample = { sandboxID: id, at: 1_700_000_001_500, cpuCount: 2, cpuUsedPct: 1.5, ...sizes }
    await warren.fixture.stores.metrics.append([sample])
    const [metric] = (
      await warren.ask('GET', `/sandboxes/${id}/metrics?start=1700000001&end=1700000001`)
    ).json()
    assert.deepEqual(metric, {
      timestamp: '2023-11-14T22:13:21.500Z',
      timestampUnix: 1_700_000_001,
      cpuCount: 2,
      cpuUsedPct: 1.5,
      memUsed: 1,
      memCache: 2,
      memTotal: 3,
      diskUsed: 4,
      diskTotal: 5,
    })
    assert.deepEqual((await warren.ask('GET', `/sandboxes/${id}/metrics?start=1&end=2`)).json(), [])
    assert.equal((await warren.ask('GET', `/sandboxes/${id}/metrics?start=2&end=1`)).status, 400)
    const ever = (await warren.ask('GET', `/sandboxes/${id}/metrics?start=0&end=${2n ** 63n - 1n}`)).json()
    assert.deepEqual(ever, [metric])
    assert.deepEqual((await warren.ask('GET', `/sandboxes/metrics?sandbox_ids=${id},inone`)).json(), {
      sandboxes: { [id]: metric },
    })
    const other = await warren.teams.createTeam('other')
    const { key } = await warren.teams.createKey(other.teamID, 'k')
    const theirs = { headers: { 'x-api-key': key } }
    assert.deepEqual((await warren.ask('GET', `/sandboxes/${id}/metrics`, theirs)).json(), [])
    assert.deepEqual((await warren.ask('GET', `/sandboxes/metrics?sandbox_ids=${id}`, theirs)).json(), {
      sandboxes: {},
    })
  })

  it('include its logs, in the forms of both versions, also after its end', async () => {
    await using warren = await openApi()
    const id = await warren.create()
    const entry = {
      sequence: 1,
      at: 1_700_000_000_000,
      level: 'info' as const,
      message: 'hi',
      fields: { pid: '7' },
    }
    await warren.logs.append(id, [
      entry,
      { ...entry, sequence: 2, at: entry.at + 1, level: 'error', message: 'bad' },
    ])
    await warren.ask('DELETE', `/sandboxes/${id}`)
    const v1 = (await warren.ask('GET', `/sandboxes/${id}/logs?start=${entry.at}&limit=1`)).json()
    assert.deepEqual(v1.logEntries, [
      { timestamp: '2023-11-14T22:13:20.000Z', message: 'hi', level: 'info', fields: { pid: '7' } },
    ])
    const line = JSON.parse(v1.logs[0].line)
    assert.deepEqual([line.level, line.message, line.logger, line.pid], ['info', 'hi', 'process', '7'])
    const v2 = async (query: string) =>
      (await warren.ask('GET', `/v2/sandboxes/${id}/logs?${query}`))
        .json()
        .logs.map((log: { message: string }) => log.message)
    assert.deepEqual(await v2(''), ['bad', 'hi'])
    assert.deepEqual(await v2('direction=forward'), ['hi', 'bad'])
    assert.deepEqual(await v2('level=warn'), ['bad'])
    assert.deepEqual(await v2('search=h'), ['hi'])
    assert.deepEqual(await v2(`cursor=${entry.at + 1}`), ['hi'])
    assert.deepEqual(await v2('limit=0'), [])
    assert.deepEqual(await v2(`cursor=${2n ** 63n - 1n}`), ['bad', 'hi'])
    assert.equal((await warren.ask('GET', `/v2/sandboxes/${id}/logs?limit=1001`)).status, 400)
  })
})

describe('the caller of a request', () => {
  it('is identified by its key, and a revoked key stops working at once', async () => {
    await using warren = await openApi()
    const keyID = (await warren.teams.listKeys('alpha'))[0]!.keyID
    assert.equal((await warren.ask('GET', '/v2/sandboxes')).status, 200)
    const revoke = await warren.ask('DELETE', `/admin/teams/alpha/api-keys/${keyID}`, warren.asAdmin)
    assert.equal(revoke.status, 204)
    const refused = await warren.ask('GET', '/v2/sandboxes')
    assert.deepEqual([refused.status, refused.json().code], [401, 401])
  })

  it('is the named team if the operator names one', async () => {
    await using warren = await openApi()
    const headers = { 'x-admin-token': 'admin-token', 'x-team-id': 'alpha' }
    const answer = await warren.api.inject({ method: 'GET', url: '/v2/sandboxes', headers })
    assert.equal(answer.statusCode, 200)
    const wrong = await warren.api.inject({
      method: 'GET',
      url: '/v2/sandboxes',
      headers: { ...headers, 'x-admin-token': 'guess' },
    })
    assert.equal(wrong.statusCode, 401)
  })

  it('may have any origin, for browsers', async () => {
    await using warren = await openApi()
    const preflight = await warren.api.inject({ method: 'OPTIONS', url: '/v2/sandboxes' })
    assert.equal(preflight.statusCode, 204)
    assert.equal(preflight.headers['access-control-allow-origin'], '*')
    assert.match(String(preflight.headers['access-control-allow-headers']), /X-API-Key/)
    const answer = await warren.ask('GET', '/v2/sandboxes')
    assert.match(String(answer.headers['access-control-expose-headers']), /X-Next-Token.*Should-Retry/)
  })
})

describe('the operator', () => {
  it('makes teams and keys, changes limits, and sees no secrets again', async () => {
    await using warren = await openApi()
    const made = await warren.ask('POST', '/admin/teams', {
      ...warren.asAdmin,
      body: { name: 'Research Lab' },
    })
    assert.deepEqual([made.status, made.json().slug], [201, 'research-lab'])
    const again = await warren.ask('POST', '/admin/teams', {
      ...warren.asAdmin,
      body: { name: 'Research Lab' },
    })
    assert.equal(again.status, 409)
    const body = { maxSandboxes: 7 }
    const changed = await warren.ask('PATCH', '/admin/teams/research-lab/limits', { ...warren.asAdmin, body })
    assert.equal(changed.json().limits.maxSandboxes, 7)
    const bad = { ...warren.asAdmin, body: { maxSandboxes: 0 } }
    assert.equal((await warren.ask('PATCH', '/admin/teams/research-lab/limits', bad)).status, 400)
    const typo = { ...warren.asAdmin, body: { maxSandboxs: 5 } }
    assert.equal((await warren.ask('PATCH', '/admin/teams/research-lab/limits', typo)).status, 400)
    const named = { ...warren.asAdmin, body: { name: 'laptop' } }
    const { key } = (await warren.ask('POST', '/admin/teams/research-lab/api-keys', named)).json()
    assert.match(key, /^e2b_[0-9a-f]{40}$/)
    const listed = await warren.ask('GET', '/admin/teams/research-lab/api-keys', warren.asAdmin)
    assert.ok(!listed.body.includes(key))
    assert.equal(listed.json()[0].mask.maskedValueSuffix, key.slice(-4))
  })
})
