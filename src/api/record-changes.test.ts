import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { addTeam } from '../../test/support/domain.ts'
import type { AuditEntry } from '../contract/rest/audit.ts'
import { actions, withoutAction } from './actions.ts'
import { permissions } from './permissions.ts'

type World = Awaited<ReturnType<typeof openApi>>

async function linesOf(warren: World, query = '?orderAsc=true'): Promise<AuditEntry[]> {
  await warren.fixture.audit.flush()
  const { status, json } = await warren.ask('GET', `/teams/alpha/audit${query}`)
  assert.equal(status, 200)
  return json()
}

const grant = { role: 'member', personID: null, madeBy: null, expiresAt: null } as const

describe('the audit', () => {
  it('says who changed what, from where and with which answer', async () => {
    await using warren = await openApi({ trustedProxies: ['127.0.0.1'] })
    const { team, stores, clock } = warren.fixture
    const person = { teamID: team.teamID, email: 'ada@example.com', role: 'owner', addedBy: '' } as const
    await stores.members.add({ ...person, at: clock.now(), personID: 'ada' })
    const { key } = await warren.teams.createKey(team.teamID, 'laptop', {
      ...grant,
      role: 'owner',
      personID: 'ada',
    })
    const headers = { 'x-api-key': key, 'x-forwarded-for': '198.51.100.7' }
    const create = await warren.ask('POST', '/v2/sandboxes', { headers, body: { templateID: 'base' } })
    const { sandboxID } = create.json()
    await warren.ask('DELETE', `/sandboxes/${sandboxID}-6532622b`, { headers })
    await warren.ask('PATCH', `/admin/teams/${team.teamID}/limits`, {
      ...warren.asAdmin,
      body: { maxCPU: 9 },
    })
    await warren.ask('GET', '/v2/sandboxes')
    const lines = await linesOf(warren)
    assert.deepEqual(
      lines.map(({ person, personID, credential, action, object, status, address }) => [
        ...[person, personID, credential, action, object, status, address],
      ]),
      [
        ['ada@example.com', 'ada', 'api key', 'sandbox.create', sandboxID, 201, '198.51.100.7'],
        ['ada@example.com', 'ada', 'api key', 'sandbox.kill', sandboxID, 204, '198.51.100.7'],
        [undefined, undefined, 'admin token', 'team.limits', team.teamID, 200, '127.0.0.1'],
      ],
    )
    assert.deepEqual(await linesOf(warren, '?person=ada&action=sandbox.kill'), [lines[1]])
  })

  it('has refused and failed requests too, at most so many a minute', async () => {
    await using warren = await openApi()
    const { team, clock } = warren.fixture
    const { key } = await warren.teams.createKey(team.teamID, 'ci', grant)
    const headers = { 'x-api-key': key }
    await warren.ask('POST', '/events/webhooks', { headers, body: {} })
    clock.advance(1)
    await warren.ask('DELETE', '/sandboxes/inone', { headers })
    assert.deepEqual(
      (await linesOf(warren)).map(({ action, status }) => [action, status]),
      [
        ['webhook.create', 403],
        ['sandbox.kill', 404],
      ],
    )
    for (let i = 0; i < 70; i++) await warren.ask('DELETE', '/sandboxes/inone', { headers })
    assert.equal((await linesOf(warren)).length, 60)
    clock.advance(60_000)
    await warren.ask('DELETE', '/sandboxes/inone', { headers })
    const newest = await linesOf(warren, '?limit=2')
    assert.ok(
      newest.some(({ action, object }) => action === 'audit.leave-out' && object === '12 refused requests'),
    )
    clock.advance(1)
    await warren.ask('DELETE', '/sandboxes/inone', { headers: { 'x-api-key': 'e2b_wrong' } })
    await warren.fixture.audit.flush()
    const all: AuditEntry[] = (await warren.ask('GET', '/admin/audit?limit=1', warren.asAdmin)).json()
    assert.deepEqual(
      all.map(({ credential, status, teamID }) => [credential, status, teamID]),
      [['none', 401, undefined]],
    )
  })

  it('has the line of a change before the answer, and no change without its line', async () => {
    await using warren = await openApi()
    const { audit, folder } = warren.fixture
    await warren.ask('POST', '/secrets', { body: { name: 'one', value: 'v' } })
    const [line] = (await warren.ask('GET', '/teams/alpha/audit')).json()
    assert.deepEqual([line.action, 'status' in line], ['secret.create', false])
    await audit.flush()
    const db = new DatabaseSync(join(folder, 'warren.db'))
    db.exec('alter table audit_lines rename to elsewhere')
    assert.equal((await warren.ask('POST', '/secrets', { body: { name: 'two', value: 'v' } })).status, 500)
    assert.equal((await warren.ask('POST', '/v2/sandboxes', { body: { templateID: 'base' } })).status, 500)
    db.exec('alter table elsewhere rename to audit_lines')
    db.close()
    const names = (await warren.ask('GET', '/secrets')).json().map(({ name }: { name: string }) => name)
    assert.deepEqual(names, ['one'])
    assert.deepEqual((await warren.ask('GET', '/v2/sandboxes')).json(), [])
  })

  it('holds no secret', async () => {
    await using warren = await openApi()
    const made = async (path: string, body: object) => (await warren.ask('POST', path, { body })).json()
    const sandbox = await made('/v2/sandboxes', { templateID: 'base', envVars: { PASSWORD: 'hunter2' } })
    const { key } = await made('/api-keys', { name: 'k' })
    const { token } = await made('/access-tokens', { name: 't' })
    const secret = await made('/secrets', { name: 's', value: 'the value' })
    await warren.ask('POST', `/secrets/${secret.secretID}`, { body: { value: 'the next value' } })
    const hook = { name: 'h', url: 'https://user:pass@a.test/', events: ['sandbox.lifecycle.created'] }
    await made('/events/webhooks', { ...hook, signatureSecret: 'x'.repeat(40) })
    const volume = await made('/volumes', { name: 'v' })
    await warren.ask('POST', '/api/cli', { headers: { authorization: `Bearer ${token}` } })
    const text = JSON.stringify(await linesOf(warren))
    const secrets = [key, token, sandbox.envdAccessToken, volume.token, warren.key]
    for (const hidden of [...secrets, 'hunter2', 'the value', 'next value', 'pass@', 'xxxx', 'admin-token']) {
      assert.equal(typeof hidden, 'string')
      assert.ok(!text.includes(hidden), hidden)
    }
    assert.equal(JSON.parse(text).length, 7)
  })

  it('outlives the team, and is shown to no other', async () => {
    await using warren = await openApi()
    const other = await addTeam(warren.fixture, 'other')
    const { key } = await warren.teams.createKey(other.teamID, 'k')
    const headers = { 'x-api-key': key }
    await warren.ask('POST', '/secrets', { headers, body: { name: 'one', value: 'v' } })
    assert.deepEqual(await linesOf(warren), [])
    assert.equal((await warren.ask('GET', '/teams/alpha/audit', { headers })).status, 403)
    assert.equal((await warren.ask('DELETE', `/admin/teams/${other.teamID}`, warren.asAdmin)).status, 204)
    await warren.fixture.audit.flush()
    const query = `team=${other.teamID}&orderAsc=true`
    const left: AuditEntry[] = (await warren.ask('GET', `/admin/audit?${query}`, warren.asAdmin)).json()
    assert.deepEqual(
      left.map(({ action }) => action),
      ['secret.create', 'team.delete'],
    )
  })

  it('is read in pages, and a bad filter is refused', async () => {
    await using warren = await openApi()
    for (const name of ['a', 'b', 'c']) await warren.ask('POST', '/secrets', { body: { name, value: 'v' } })
    await warren.fixture.audit.flush()
    const first = await warren.ask('GET', '/teams/alpha/audit?limit=2')
    const next = first.headers['x-next-token']
    const second = await warren.ask('GET', `/teams/alpha/audit?limit=2&nextToken=${next}`)
    const ids = [...first.json(), ...second.json()].map(({ id }: AuditEntry) => id)
    assert.equal(new Set(ids).size, 3)
    assert.equal(second.headers['x-next-token'], undefined)
    for (const query of ['from=yesterday', 'limit=0', 'nextToken=x'])
      assert.equal((await warren.ask('GET', `/teams/alpha/audit?${query}`)).status, 400, query)
  })

  it('is followed as JSON lines, each once, until the client leaves', async () => {
    await using warren = await openApi()
    const { clock, audit } = warren.fixture
    const headers = { 'x-api-key': warren.key, host: '127.0.0.1:3000' }
    const url = '/teams/alpha/audit?follow=true&action=secret.'
    const answer = await warren.api.inject({ method: 'GET', url, headers, payloadAsStream: true })
    assert.match(String(answer.headers['content-type']), /^application\/x-ndjson/)
    const stream = answer.stream().setEncoding('utf8')
    const next = async () => {
      for await (const text of stream.iterator({ destroyOnReturn: false }))
        if (text.trim() !== '') return text
      return ''
    }
    const seen: string[] = []
    for (const name of ['a', 'b']) {
      const { secretID } = (await warren.ask('POST', '/secrets', { body: { name, value: 'v' } })).json()
      await warren.create()
      await audit.flush()
      const turning = setInterval(() => clock.advance(500), 5)
      const entry = JSON.parse(await next())
      clearInterval(turning)
      seen.push(entry.object)
      assert.deepEqual([entry.object, entry.status], [secretID, 201])
    }
    assert.equal(new Set(seen).size, 2)
    stream.destroy()
  })

  it('names every request that changes something', () => {
    const changing = Object.entries(permissions).filter(([name]) => !name.startsWith('GET '))
    const unnamed = changing
      .map(([name]) => name)
      .filter((name) => !(name in actions) && !withoutAction.has(name))
    assert.deepEqual(unnamed, [])
    assert.deepEqual(
      Object.keys(actions).filter((name) => !(name in permissions)),
      [],
    )
  })
})
