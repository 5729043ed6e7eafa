import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'

describe('an unreadable request', () => {
  it('is reported in the body of every failure, even if no route is reached', async () => {
    await using warren = await openApi()
    for (const [url, says] of [
      ['/sandboxes/%zz', /percent-encoded/],
      [`/sandboxes/${'a'.repeat(600)}`, /too long/],
    ] as const) {
      const answer = await warren.ask('GET', url)
      assert.deepEqual([answer.status, answer.json().code], [400, 400])
      assert.match(answer.json().message, says)
      assert.equal(answer.headers['access-control-allow-origin'], '*')
    }
  })

  it('gets its own error for each fault in a body: no JSON, an unknown key, a wrong type', async () => {
    await using warren = await openApi()
    const post = async (payload: string, type = 'application/json') => {
      const headers = { 'x-api-key': warren.key, 'content-type': type }
      const answer = await warren.api.inject({ method: 'POST', url: '/v2/sandboxes', headers, payload })
      return [answer.statusCode, answer.json().message]
    }
    const invalid = (why: string) => [400, `Invalid request body: ${why}; send a JSON object`]
    assert.deepEqual(await post('{bad'), invalid('it is not JSON'))
    const key = '{"templateID":"base","metadata":{"__proto__":"x"}}'
    assert.deepEqual(await post(key), invalid("a key '__proto__' or 'constructor.prototype' is not taken"))
    const [status, message] = await post('{"templateID":"base"}', 'no;;type')
    assert.deepEqual([status, message], [400, 'Invalid request: send Content-Type: application/json'])
  })

  it('gets an error about the value, and not about null as an alternative', async () => {
    await using warren = await openApi()
    const id = await warren.create()
    const message = async (path: string, body?: object) =>
      (await warren.ask(body ? 'POST' : 'GET', path, { body })).json().message
    const refresh = await message(`/sandboxes/${id}/refreshes`, { duration: 3601 })
    assert.equal(refresh, 'validation error: body/duration must be <= 3600')
    const network = await message('/v2/sandboxes', { templateID: 'base', network: { denyOut: 'x' } })
    assert.equal(network, 'validation error: body/network/denyOut must be array')
    const build = '00000000-0000-4000-8000-000000000000'
    const level = await message(`/templates/base/builds/${build}/status?level=loud`)
    assert.equal(
      level,
      'validation error: querystring/level must be equal to one of the allowed values: debug, info, warn, error',
    )
  })
})

describe('the options of a create', () => {
  it('must have texts as metadata, and valid names of variables', async () => {
    await using warren = await openApi()
    const refused: [object, RegExp][] = [
      [{ metadata: { a: 1 } }, /^validation error: body\/metadata\/a must be string$/],
      [{ metadata: many(1025) }, /^validation error: body\/metadata must NOT have more than 1024/],
      [{ envVars: many(1025) }, /^validation error: body\/envVars must NOT have more than 1024/],
      [{ metadata: { '': 1 } }, /^validation error: body\/metadata/],
      [{ metadata: { '': 'x' } }, /^validation error: body\/metadata must match pattern/],
      [{ metadata: { 'a\0b': 'x' } }, /^validation error: body\/metadata must match pattern/],
      [{ envVars: { 'A=B': 'x' } }, /^validation error: body\/envVars must match pattern/],
      [{ envVars: { A: 'x\0' } }, /^validation error: body\/envVars\/A must match pattern/],
      [{ metadata: { a: 'é'.repeat(32_768) } }, /^metadata has more than 65536 bytes: put/],
      [
        { envVars: { A: 'x'.repeat(131_070) } },
        /a variable may have at most 131072 bytes: put 'A' into a file/,
      ],
    ]
    for (const [options, says] of refused) {
      const answer = await warren.ask('POST', '/v2/sandboxes', { body: { templateID: 'base', ...options } })
      assert.equal(answer.status, 400, JSON.stringify(options))
      assert.match(answer.json().message, says)
    }
    assert.deepEqual(await warren.fixture.driver.list(), [])
    await warren.create({ metadata: { ...many(1023), 'a=b': '=' }, envVars: { A: 'b=c' } })
    await warren.create({ metadata: { a: 'x'.repeat(65_535) }, envVars: { A: 'x'.repeat(131_069) } })
    assert.equal((await warren.fixture.driver.list()).length, 2)
  })
})

const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 'v']))

describe('the parameters of a list', () => {
  it('are rejected if they are invalid', async () => {
    await using warren = await openApi()
    for (const [query, says] of [
      ['metadata=%25zz', /^Error parsing metadata/],
      ['metadata=plain', /^Error parsing metadata/],
      ['metadata=a%3Db%26plain', /^Error parsing metadata/],
      ['state=sleeping', /running or paused/],
      ['order=up', /^Invalid order parameter/],
      ['order=up&template=nothing', /^Invalid order parameter/],
      ['nextToken=zz', /^Invalid next token/],
      ['nextToken=zz&template=nothing', /^Invalid next token/],
      ['template=base:v1', /without a tag/],
      ['startedAfter=yesterday', /date-time/],
      ['startedAfter=2016-12-31T23:59:60Z', /is not a time/],
    ] as const) {
      const answer = await warren.ask('GET', `/v2/sandboxes?${query}`)
      assert.equal(answer.status, 400, query)
      assert.match(answer.json().message, says)
    }
  })

  it('are answered with a total count even for an unknown template, and without one if no running sandboxes are asked for', async () => {
    await using warren = await openApi()
    await warren.create()
    const count = async (query: string) =>
      (await warren.ask('GET', `/v2/sandboxes?${query}`)).headers['x-total-running']
    assert.equal(await count('template=base'), '1')
    assert.equal(await count('template=nothing'), '0')
    assert.equal(await count('state=paused'), undefined)
  })
})
