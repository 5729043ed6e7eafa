import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'

const value = 'hunter2-not-to-be-seen'

/** A Warren with two teams. */
async function openTeams() {
  const warren = await openApi()
  const { teamID } = await warren.teams.createTeam('other')
  const { key } = await warren.teams.createKey(teamID, 'k')
  const { ask } = warren
  const asOther: typeof ask = (method, url, more = {}) =>
    ask(method, url, { ...more, headers: { 'x-api-key': key } })
  return { ...warren, asOther }
}

describe('secrets over the API', () => {
  it('are made, shown, updated and deleted, by name and by id, and the value never comes back', async () => {
    await using warren = await openTeams()
    const { ask } = warren
    const bodies: string[] = []
    const made = await ask('POST', '/secrets', { body: { name: 'OpenAI', value, metadata: { a: 'b' } } })
    assert.equal(made.status, 201)
    const { secretID, ...rest } = made.json()
    const now = new Date(warren.fixture.clock.now()).toISOString()
    assert.match(secretID, /^sec_[0-9a-z]{26}$/)
    const shown = { name: 'openai', currentVersion: 1, metadata: { a: 'b' }, createdAt: now, updatedAt: now }
    assert.deepEqual(rest, shown)
    warren.fixture.clock.advance(1500)
    for (const reference of [secretID, 'openai', 'OPENAI']) {
      const got = await ask('GET', `/secrets/${reference}`)
      assert.deepEqual([got.status, got.json()], [200, { secretID, ...shown }])
      bodies.push(got.body)
    }
    const updated = await ask('POST', '/secrets/OpenAI', { body: { value: `${value} 2` } })
    const updatedAt = new Date(warren.fixture.clock.now()).toISOString()
    assert.deepEqual(
      [updated.status, updated.json()],
      [200, { secretID, ...shown, currentVersion: 2, updatedAt }],
    )
    const emptied = await ask('POST', `/secrets/${secretID}`, { body: { value, metadata: {} } })
    assert.deepEqual([emptied.json().currentVersion, emptied.json().metadata], [3, {}])
    const listed = await ask('GET', '/secrets')
    assert.deepEqual(listed.json(), [emptied.json()])
    assert.equal(listed.headers['cache-control'], 'no-store')
    const gone = await ask('DELETE', '/secrets/openai')
    assert.deepEqual([gone.status, gone.body], [204, ''])
    assert.equal((await ask('DELETE', `/secrets/${secretID}`)).status, 404)
    for (const body of [made.body, updated.body, emptied.body, listed.body, ...bodies]) {
      assert.ok(!body.includes('hunter2'))
    }
  })

  it('are rejected a second time under one name, in any case, also for requests at the same time', async () => {
    await using warren = await openTeams()
    const create = (name: string) => warren.ask('POST', '/secrets', { body: { name, value } })
    const all = await Promise.all(Array.from({ length: 20 }, (_, at) => create(at % 2 ? 'KEY' : 'key')))
    assert.deepEqual(all.map(({ status }) => status).sort(), [201, ...Array.from({ length: 19 }, () => 409)])
    const again = await create('Key')
    assert.match(again.json().message, /exists already: choose another name/)
    assert.equal((await warren.ask('GET', '/secrets')).json().length, 1)
    assert.equal((await warren.asOther('POST', '/secrets', { body: { name: 'key', value } })).status, 201)
  })

  it('get distinct version numbers when they are updated at the same time', async () => {
    await using warren = await openTeams()
    await warren.ask('POST', '/secrets', { body: { name: 'key', value } })
    const updates = Array.from({ length: 10 }, () => warren.ask('POST', '/secrets/key', { body: { value } }))
    const versions = (await Promise.all(updates)).map((answer) => answer.json().currentVersion)
    assert.deepEqual(
      versions.sort((a, b) => a - b),
      [2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    )
  })

  it('of another team are answered like none at all', async () => {
    await using warren = await openTeams()
    const { secretID } = (await warren.ask('POST', '/secrets', { body: { name: 'mine', value } })).json()
    const nobody = 'sec_00000000000000000000000000'
    for (const [method, more] of [
      ['GET', {}],
      ['POST', { body: { value: 'stolen' } }],
      ['DELETE', {}],
    ] as const) {
      for (const [reference, unknown] of [
        [secretID, nobody],
        ['mine', 'none'],
      ]) {
        const answers = [reference, unknown].map((each) => warren.asOther(method, `/secrets/${each}`, more))
        const [theirs, none] = await Promise.all(answers)
        assert.equal(theirs!.status, 404)
        assert.deepEqual(theirs!.json(), none!.json())
      }
    }
    assert.deepEqual((await warren.asOther('GET', '/secrets')).json(), [])
    assert.equal((await warren.ask('GET', '/secrets/mine')).json().currentVersion, 1)
  })

  it('need a key', async () => {
    await using warren = await openTeams()
    const stranger = { headers: { 'x-api-key': '' } }
    for (const [method, path] of [
      ['GET', '/secrets'],
      ['POST', '/secrets'],
      ['GET', '/secrets/a'],
      ['POST', '/secrets/a'],
      ['DELETE', '/secrets/a'],
    ] as const) {
      const answer = await warren.ask(method, path, stranger)
      assert.equal(answer.status, 401)
      assert.equal(answer.headers['cache-control'], 'no-store')
    }
  })

  it('are listed page by page, newest first', async () => {
    await using warren = await openTeams()
    const names: string[] = []
    for (let at = 0; at < 5; at++) {
      names.unshift(`key-${at}`)
      await warren.ask('POST', '/secrets', { body: { name: `key-${at}`, value } })
      // Two of them within one millisecond of each other.
      if (at !== 2) warren.fixture.clock.advance(1)
    }
    const found: string[] = []
    let token: string | undefined = ''
    for (let page = 0; token !== undefined; page++) {
      const answer = await warren.ask('GET', `/secrets?limit=2&nextToken=${token}`)
      assert.equal(answer.status, 200)
      assert.ok(page < 3)
      found.push(...answer.json().map(({ name }: { name: string }) => name))
      token = answer.headers['x-next-token'] as string | undefined
    }
    const [newest, ...others] = found
    assert.equal(newest, names[0])
    assert.deepEqual(others.slice(0, 2).toSorted(), ['key-2', 'key-3'])
    assert.deepEqual(others.slice(2), ['key-1', 'key-0'])
    for (const bad of ['limit=0', 'limit=101', 'limit=x', 'limit=-1', 'limit=1e99', 'nextToken=x']) {
      assert.equal((await warren.ask('GET', `/secrets?${bad}`)).status, 400, bad)
    }
  })

  it('are rejected with a fixed message if the request is malformed', async () => {
    await using warren = await openTeams()
    const bad: [unknown, RegExp][] = [
      [undefined, /send a JSON object/],
      [null, /send a JSON object/],
      [[], /send a JSON object/],
      [value, /send a JSON object/],
      [{ value }, /send a JSON object/],
      [{ name: 'a' }, /send a JSON object/],
      [{ name: value, value: 5 }, /send a JSON object/],
      [{ name: 'a', value: null }, /send a JSON object/],
      [{ name: 'a', value, metadata: { hunter2: 1 } }, /send a JSON object/],
      [{ name: 'a', value, metadata: [value] }, /send a JSON object/],
      [{ name: 'a', value, metadata: null }, /send a JSON object/],
      [{ name: `a ${value}`, value }, /a name is 1 to 128/],
      [{ name: `sec_${value}`, value }, /cannot begin with sec_/],
      [{ name: 'a', value: '' }, /the value is empty/],
      [{ name: 'a', value: `${value}\n` }, /line break/],
      [{ name: 'a', value: value.repeat(1000) }, /longer than 16384/],
      [{ name: 'a', value, metadata: { k: value.repeat(100) } }, /longer than 1024/],
    ]
    for (const [body, says] of bad) {
      const answer = await warren.ask('POST', '/secrets', { body })
      assert.equal(answer.status, 400, JSON.stringify(body))
      assert.match(answer.json().message, says)
      assert.match(answer.json().message, /^Invalid secrets request: /)
      assert.ok(!answer.body.includes('hunter2'), answer.body)
    }
    for (const path of ['a%20b', 'sec_short', '%00', '%e2%84%aa', 'x'.repeat(129)]) {
      for (const method of ['GET', 'DELETE'] as const) {
        assert.equal((await warren.ask(method, `/secrets/${path}`)).status, 400, path)
      }
    }
    assert.deepEqual((await warren.ask('GET', '/secrets')).json(), [])
  })

  it('are not quoted in the answer to a body that is not JSON', async () => {
    await using warren = await openTeams()
    for (const text of [
      `{"name":"a","value":"${value}"`,
      `{"name":"a","value":${value}}`,
      `{"name":"a","value":"${value}",}`,
      `${value}`,
      `{"__proto__":"${value}"}`,
      `{"value":"${value}\n"}`,
    ]) {
      const headers = { 'x-api-key': warren.key }
      const answer = await warren.api.inject({ method: 'POST', url: '/secrets', headers, payload: text })
      assert.equal(answer.statusCode, 400)
      assert.match(answer.json().message, /^Invalid request body: .+; send a JSON object$/)
      assert.ok(!answer.body.includes('hunt'), answer.body)
    }
  })
})
