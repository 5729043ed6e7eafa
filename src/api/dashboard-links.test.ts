/** The links of `warren quickstart`: who makes them, and what they give once. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import type { AuditEntry } from '../contract/rest/audit.ts'
import type { ApiKey, CreatedLink } from '../contract/rest/team.ts'

type World = Awaited<ReturnType<typeof openApi>>

async function newLink(warren: World): Promise<CreatedLink> {
  const { team } = warren.fixture
  const answer = await warren.ask('POST', `/admin/teams/${team.teamID}/dashboard-links`, warren.asAdmin)
  assert.equal(answer.status, 201)
  assert.equal(answer.headers['cache-control'], 'no-store')
  return answer.json()
}

const redeem = (warren: World, code: unknown) =>
  warren.ask('POST', '/dashboard-links/redeem', { headers: { 'x-api-key': '' }, body: { code } })

describe('a link to the dashboard', () => {
  it('gives a key of its team that ends after 12 hours, once', async () => {
    await using warren = await openApi()
    const { clock } = warren.fixture
    const { code, expiresAt } = await newLink(warren)
    assert.equal(Date.parse(expiresAt), clock.now() + 600_000)
    const answer = await redeem(warren, code)
    assert.equal(answer.status, 201)
    const made: ApiKey & { key: string } = answer.json()
    assert.equal(Date.parse(made.expiresAt!), clock.now() + 12 * 3600_000)
    const headers = { 'x-api-key': made.key }
    assert.equal((await warren.ask('GET', '/teams', { headers })).json()[0].name, warren.fixture.team.name)
    const again = await redeem(warren, code)
    assert.equal(again.status, 401)
    assert.match(again.json().message, /run `warren quickstart` again/)
    clock.advance(12 * 3600_000)
    assert.equal((await warren.ask('GET', '/teams', { headers })).status, 401)
  })

  it('is worth nothing after 10 minutes, nor when a hundred others were made since', async () => {
    await using warren = await openApi()
    const { code } = await newLink(warren)
    warren.fixture.clock.advance(600_000)
    assert.equal((await redeem(warren, code)).status, 401)
    const first = await newLink(warren)
    const second = await newLink(warren)
    for (let made = 0; made < 99; made++) await newLink(warren)
    assert.equal((await redeem(warren, first.code)).status, 401)
    assert.equal((await redeem(warren, second.code)).status, 201)
  })

  it('is made by the operator alone, for a team that there is', async () => {
    await using warren = await openApi()
    const path = `/admin/teams/${warren.fixture.team.teamID}/dashboard-links`
    assert.equal((await warren.ask('POST', path)).status, 401)
    const nowhere = await warren.ask('POST', '/admin/teams/none/dashboard-links', warren.asAdmin)
    assert.equal(nowhere.status, 404)
    for (const code of [undefined, '', 'x', 7, 'a'.repeat(65)])
      assert.equal((await redeem(warren, code)).status, 400, String(code))
    assert.equal((await redeem(warren, 'a'.repeat(64))).status, 401)
  })

  it('is in the audit of its team with its key, and without its code', async () => {
    await using warren = await openApi()
    const { code } = await newLink(warren)
    const { id } = (await redeem(warren, code)).json()
    await warren.fixture.audit.flush()
    const lines: AuditEntry[] = (await warren.ask('GET', '/teams/alpha/audit?orderAsc=true')).json()
    assert.deepEqual(
      lines.map(({ action, credential, status }) => [action, credential, status]),
      [
        ['link.create', 'admin token', 201],
        ['key.create', 'admin token', 200],
      ],
    )
    assert.ok(!JSON.stringify(lines).includes(code))
    assert.ok(id)
  })
})
