/** Clients that are older than access tokens: who may use them, and what they get. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { newUUID } from '../lib/ids.ts'
import { aTemplate } from '../store/suite/rows.ts'

const js = (version: string) => ({ publisher: 'e2b', lang: 'js', package_version: version })
const python = (version: string) => ({ ...js(version), lang: 'python' })
const body = { templateID: 'base' }

describe('a client older than access tokens', () => {
  it('is told which switch would let it in, before there is a sandbox that it could not use', async () => {
    await using warren = await openApi()
    const refused = [
      [js('1.0.1'), 'e2b 1.0 for JavaScript'],
      [js('1.2.0-beta.4'), 'e2b 1.2 for JavaScript'],
      [python('1.4.0'), 'e2b 1.4 for Python'],
      [python('0.17.1'), 'e2b 0.17 for Python'],
    ] as const
    for (const [headers, name] of refused) {
      const answer = await warren.ask('POST', '/sandboxes', { body, headers })
      assert.equal(answer.status, 400)
      const { message } = answer.json()
      assert.ok(message.includes(`(${name})`), message)
      assert.match(message, /1\.5 or newer.*`warren team older-clients alpha yes`.*WARREN_OLDER_CLIENTS=yes/)
    }
    assert.deepEqual(await warren.fixture.driver.list(), [])
  })

  it('gets a client ID of its own for each sandbox, if its team or every team may use it', async () => {
    await using every = await openApi({ allowOlderClients: true })
    await using one = await openApi()
    const admin = { ...one.asAdmin, body: { olderClients: true } }
    const changed = await one.ask('PATCH', '/admin/teams/alpha', admin)
    assert.deepEqual([changed.status, changed.json().olderClients], [200, true])
    for (const warren of [every, one]) {
      const create = async () =>
        (await warren.ask('POST', '/sandboxes', { body, headers: js('1.2.1') })).json()
      const [first, second] = [await create(), await create()]
      assert.match(first.clientID, /^[0-9a-f]{32}$/)
      assert.notEqual(first.clientID, second.clientID)
      assert.notEqual(first.envdAccessToken.slice(0, 32), first.clientID)
      // Such a client makes host names from what lists and details say too.
      const detail = await warren.ask('GET', `/sandboxes/${first.sandboxID}-${first.clientID}`)
      assert.equal(detail.json().clientID, first.clientID)
      for (const path of ['/sandboxes', '/v2/sandboxes']) {
        const listed = (await warren.ask('GET', path)).json() as { sandboxID: string; clientID: string }[]
        const found = listed.find(({ sandboxID }) => sandboxID === second.sandboxID)
        assert.equal(found?.clientID, second.clientID)
      }
      const { hostToken } = warren.fixture.routes.get(first.sandboxID)!
      assert.equal(hostToken, first.clientID)
      // The agent wants its token all the same.
      assert.deepEqual(warren.fixture.agent.secured, [true, true])
    }
  })

  it('is recognized by all that it says of itself: every other client gets a token and no client ID of its own', async () => {
    await using warren = await openApi({ allowOlderClients: true })
    const others: [Record<string, string>, object?][] = [
      [{}],
      [js('1.5.0')],
      [python('1.5.0')],
      [js('2.0.1')],
      [python('2.63.0')],
      [{ ...js('1.2.1'), publisher: 'another' }],
      [{ ...js('1.2.1'), lang: 'ruby' }],
      [js('one')],
      [js('1')],
      [js('1.2.1'), { secure: true }],
    ]
    for (const [headers, more] of others) {
      const answer = await warren.ask('POST', '/sandboxes', { body: { ...body, ...more }, headers })
      assert.equal(answer.status, 201)
      const { sandboxID, clientID, envdAccessToken } = answer.json()
      assert.deepEqual([clientID, typeof envdAccessToken], ['6532622b', 'string'], JSON.stringify(headers))
      assert.equal(warren.fixture.routes.get(sandboxID)?.hostToken, undefined)
      await warren.ask('DELETE', `/sandboxes/${sandboxID}`)
    }
  })

  it('of the code interpreter gets an ID that contains the client ID, unless it repeats client IDs', async () => {
    await using warren = await openApi({ allowOlderClients: true })
    const { catalog, team, stores } = warren.fixture
    const { build } = await catalog.resolve(team, 'base')
    const template = aTemplate({ templateID: 'interpreter1', teamID: null, public: true })
    const names = [{ namespace: null, alias: 'code-interpreter-v1' }]
    const own = { ...build, buildID: newUUID(), templateID: template.templateID }
    await stores.templates.insertBuild(own, ['default'], { template, names })
    const cases: [headers: Record<string, string>, body: object, isLong: boolean, hasClientID: boolean][] = [
      [python('1.11.1'), { secure: false }, true, true],
      [js('1.13.2'), {}, true, true],
      [python('1.5.0'), { secure: false }, false, true],
      [js('1.8.0'), {}, false, true],
      [js('1.13.2'), { secure: true }, false, false],
      [js('2.0.1'), {}, false, false],
      [python('2.0.0'), { secure: false }, false, false],
    ]
    for (const [headers, more, isLong, hasClientID] of cases) {
      const body = { templateID: 'code-interpreter-v1', ...more }
      const answer = await warren.ask('POST', '/sandboxes', { body, headers })
      assert.equal(answer.status, 201, answer.body)
      const { sandboxID, clientID } = answer.json()
      const [id] = sandboxID.split('-')
      assert.equal(sandboxID, isLong ? `${id}-${clientID}` : id, JSON.stringify(headers))
      const { hostToken } = warren.fixture.routes.get(id)!
      assert.equal(hostToken, hasClientID ? clientID : undefined, JSON.stringify(headers))
      assert.equal((await warren.ask('DELETE', `/sandboxes/${sandboxID}`)).status, 204)
    }
    await using closed = await openApi()
    const plain = await closed.ask('POST', '/sandboxes', {
      body: { templateID: 'base' },
      headers: js('1.13.2'),
    })
    assert.equal(plain.json().clientID, '6532622b', 'without the switch it runs commands, as before')
  })

  it('leaves no client ID in the log, though it sends it with every request', async () => {
    const lines: string[] = []
    const write = (values: object, message: string) => void lines.push(JSON.stringify({ values, message }))
    const log = { debug: write, info: write, warn: write, error: write }
    await using warren = await openApi({
      allowOlderClients: true,
      log,
      onAnswered: (answered) => void lines.push(JSON.stringify(answered)),
    })
    const made = await warren.ask('POST', '/sandboxes', { body, headers: js('1.2.1') })
    const { sandboxID, clientID } = made.json()
    const path = `/sandboxes/${sandboxID}-${clientID}`
    assert.equal((await warren.ask('POST', `${path}/timeout`, { body: { timeout: 60 } })).status, 204)
    assert.equal((await warren.ask('POST', `${path}/timeout`, { body: { timeout: -1 } })).status, 400)
    assert.equal((await warren.ask('DELETE', path)).status, 204)
    assert.equal((await warren.ask('DELETE', path)).status, 404)
    for (const unknown of [`${path}/no-such-operation`, `/no/such${path}`, `/v9${path}`])
      assert.equal((await warren.ask('POST', unknown, { body: {} })).status, 404)
    for (const asked of [path, `${path}/no-such-operation`]) await warren.ask('OPTIONS', asked)
    assert.equal(lines.filter((line) => line.includes('OPTIONS')).length, 2)
    const text = lines.join('\n')
    assert.ok(text.includes(sandboxID))
    assert.ok(!text.includes(clientID), text)
  })

  it('keeps the client ID over a pause, and a fork has one of its own', async () => {
    await using warren = await openApi({ allowOlderClients: true })
    const headers = js('1.2.1')
    const { sandboxID, clientID } = (await warren.ask('POST', '/sandboxes', { body, headers })).json()
    assert.equal((await warren.ask('POST', `/sandboxes/${sandboxID}/pause`, { body: {} })).status, 204)
    const resumed = await warren.ask('POST', `/sandboxes/${sandboxID}/resume`, { body: {} })
    assert.equal(resumed.json().clientID, clientID)
    const [{ sandbox }] = (await warren.ask('POST', `/sandboxes/${sandboxID}/fork`, { body: {} })).json()
    assert.match(sandbox.clientID, /^[0-9a-f]{32}$/)
    assert.notEqual(sandbox.clientID, clientID)
  })
})
