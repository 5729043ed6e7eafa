import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'

const webhook = {
  name: 'My webhook',
  url: 'https://receiver.test/hook',
  enabled: true,
  events: ['sandbox.lifecycle.created', 'sandbox.lifecycle.killed'],
  signatureSecret: 'hunter2-not-to-be-seen',
}

async function openTeams() {
  const warren = await openApi()
  const { teamID } = await warren.teams.createTeam('other')
  const { key } = await warren.teams.createKey(teamID, 'k')
  const asOther = { headers: { 'x-api-key': key } }
  return { ...warren, asOther }
}

const typesOf = (events: { type: string }[]) => events.map(({ type }) => type.split('.').at(-1))

describe('events over the API', () => {
  it('are listed by sandbox and by team, filtered, ordered and paged', async () => {
    await using warren = await openTeams()
    const { ask, create, asOther } = warren
    const sandboxID = await create({ metadata: { user: 'a' }, timeout: 30 })
    warren.fixture.clock.advance(1000)
    await ask('POST', `/sandboxes/${sandboxID}/timeout`, { body: { timeout: 60 } })
    warren.fixture.clock.advance(1000)
    await ask('DELETE', `/sandboxes/${sandboxID}`)
    warren.fixture.clock.advance(1000)
    await create()
    const list = async (path: string, more = {}) => {
      const answer = await ask('GET', `/events/sandboxes${path}`, more)
      assert.equal(answer.status, 200, answer.body)
      return answer.json()
    }
    assert.deepEqual(typesOf(await list('')), ['created', 'killed', 'updated', 'created'])
    assert.deepEqual(typesOf(await list('?orderAsc=true&offset=1&limit=2')), ['updated', 'killed'])
    const own = await list(`/${sandboxID}`)
    assert.deepEqual(typesOf(own), ['killed', 'updated', 'created'])
    const types = 'types=sandbox.lifecycle.killed&types=sandbox.lifecycle.created'
    assert.deepEqual(typesOf(await list(`/${sandboxID}?${types}`)), ['killed', 'created'])
    assert.deepEqual(typesOf(await list('?types=sandbox.lifecycle.updated')), ['updated'])
    const [killed, updated, created] = own
    assert.deepEqual(created.eventData, { sandbox_metadata: { user: 'a' } })
    assert.match(updated.eventData.set_timeout, /^\d{4}-\d\d-\d\dT.+Z$/)
    assert.deepEqual(killed.eventData.execution.execution_time, 2000)
    assert.equal(killed.sandboxExecutionId, created.sandboxExecutionId)
    assert.deepEqual(Object.keys(created).sort(), [
      ...['eventData', 'id', 'sandboxBuildId', 'sandboxExecutionId', 'sandboxId', 'sandboxTeamId'],
      ...['sandboxTemplateId', 'timestamp', 'type', 'version'],
    ])
    assert.deepEqual(await list(`/${sandboxID}`, asOther), [])
    assert.deepEqual(await list('', asOther), [])
    for (const bad of ['limit=0', 'limit=101', 'offset=-1', 'types=nothing', 'orderAsc=perhaps']) {
      assert.equal((await ask('GET', `/events/sandboxes?${bad}`)).status, 400, bad)
    }
    assert.equal((await ask('GET', '/events/sandboxes/NO!')).status, 400)
    const stranger = { headers: { 'x-api-key': undefined } }
    assert.equal((await ask('GET', '/events/sandboxes', stranger)).status, 401)
  })
})

describe('webhooks over the API', () => {
  it('are made, listed, read, changed and deleted, and the secret never comes back', async () => {
    await using warren = await openTeams()
    const { ask, fixture } = warren
    const made = await ask('POST', '/events/webhooks', { body: webhook })
    assert.equal(made.status, 201)
    const { id, ...rest } = made.json()
    const { signatureSecret, ...shown } = webhook
    const createdAt = new Date(fixture.clock.now()).toISOString()
    const more = { teamID: fixture.team.teamID, createdAt, failingSince: null, lastError: null }
    assert.deepEqual(rest, { ...shown, ...more })
    const listed = await ask('GET', '/events/webhooks')
    assert.deepEqual([listed.status, listed.json()], [200, [{ id, ...rest }]])
    const changes = { url: 'https://other.test/', enabled: false, events: ['sandbox.lifecycle.paused'] }
    const changed = await ask('PATCH', `/events/webhooks/${id}`, { body: changes })
    assert.deepEqual([changed.status, changed.json()], [200, { id, ...rest, ...changes }])
    const renewed = await ask('PATCH', `/events/webhooks/${id}`, { body: { signatureSecret: 'hunter2 new' } })
    const read = await ask('GET', `/events/webhooks/${id}`)
    assert.deepEqual([read.status, read.json()], [200, { id, ...rest, ...changes }])
    for (const { body } of [made, listed, changed, renewed, read]) assert.ok(!body.includes('hunter2'))
    const gone = await ask('DELETE', `/events/webhooks/${id}`)
    assert.deepEqual([gone.status, gone.body], [200, ''])
    assert.equal((await ask('DELETE', `/events/webhooks/${id}`)).status, 404)
    assert.equal((await ask('GET', `/events/webhooks/${id}`)).status, 404)
  })

  it('of another team are answered like none at all', async () => {
    await using warren = await openTeams()
    const { ask, asOther } = warren
    const { id } = (await ask('POST', '/events/webhooks', { body: webhook })).json()
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['GET', '/deliveries', undefined],
      ['PATCH', '', { name: 'x' }],
      ['DELETE', '', undefined],
    ] as const) {
      const answers = [id, 'none'].map((each) =>
        ask(method, `/events/webhooks/${each}${path}`, { ...asOther, ...(body && { body }) }),
      )
      const [theirs, none] = await Promise.all(answers)
      assert.equal(theirs!.status, 404)
      assert.deepEqual(theirs!.json(), none!.json())
    }
    assert.deepEqual((await ask('GET', '/events/webhooks', asOther)).json(), [])
  })

  it('show the deliveries that wait', async () => {
    await using warren = await openTeams()
    const { ask, create } = warren
    const { id } = (await ask('POST', '/events/webhooks', { body: webhook })).json()
    const sandboxID = await create()
    const [delivery, ...others] = (await ask('GET', `/events/webhooks/${id}/deliveries`)).json()
    assert.deepEqual(others, [])
    const { type, status, attempts, endedAt, lastError } = delivery
    assert.deepEqual([type, status, attempts], ['sandbox.lifecycle.created', 'pending', 0])
    assert.deepEqual([delivery.sandboxID, endedAt, lastError], [sandboxID, null, null])
    assert.equal((await ask('GET', `/events/webhooks/${id}/deliveries?offset=1`)).json().length, 0)
  })

  it('are rejected with the reason if they are invalid', async () => {
    await using warren = await openTeams()
    const bad: [object, RegExp][] = [
      [{ url: 'ftp://a.test/' }, /must begin with http/],
      [{ url: 'receiver.test' }, /must begin with http/],
      [{ url: 'https://user:password@a.test/' }, /user or a password/],
      [{ url: 'http://[::1]/' }, /IPv6/],
      [{ url: 'http://10.0.0.1/' }, /internal network/],
      [{ url: 'http://0x0a000001/' }, /internal network/],
      [{ url: `https://a.test/${'x'.repeat(2048)}` }, /longer than 2048/],
      [{ name: ' ' }, /1 to 128/],
      [{ events: [] }, /no events/],
      [{ events: ['sandbox.lifecycle.exploded'] }, /sandbox\.lifecycle\.created/],
      [{ signatureSecret: '' }, /signatureSecret is empty/],
      [{ signatureSecret: 'x'.repeat(1025) }, /longer than 1024/],
      [{ signatureSecret: undefined }, /signatureSecret/],
    ]
    for (const [change, says] of bad) {
      const answer = await warren.ask('POST', '/events/webhooks', { body: { ...webhook, ...change } })
      assert.equal(answer.status, 400, JSON.stringify(change))
      assert.match(answer.json().message, says)
    }
    assert.deepEqual((await warren.ask('GET', '/events/webhooks')).json(), [])
  })

  it('are limited to ten', async () => {
    await using warren = await openTeams()
    const make = () => warren.ask('POST', '/events/webhooks', { body: webhook })
    const all = await Promise.all(Array.from({ length: 12 }, make))
    assert.equal(all.filter(({ status }) => status === 201).length, 10)
    assert.match((await make()).json().message, /10 webhooks, which is the limit/)
  })
})
