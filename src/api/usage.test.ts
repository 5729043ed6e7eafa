import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { dayMs, dayOf } from '../core/usage/usage.ts'

type Api = Awaited<ReturnType<typeof openApi>>

const usageOf = (warren: Api, query = '', more = {}) =>
  warren.ask('GET', `/teams/${warren.fixture.team.teamID}/usage${query}`, more)

describe('the usage of a team over the API', () => {
  it('has a line for each day with the seconds of sandboxes, CPU and memory', async () => {
    await using warren = await openApi()
    const { clock, team } = warren.fixture
    await warren.create()
    clock.advance(10_000)
    const { status, json } = await usageOf(warren)
    assert.equal(status, 200)
    const { from, to, days, budget } = json()
    assert.deepEqual([from, to, budget], [dayOf(clock.now() - 29 * dayMs), dayOf(clock.now()), null])
    const [{ day, teamID, sandboxSeconds, cpuSeconds, memoryGiBSeconds, ...rest }] = days
    assert.deepEqual([day, teamID, sandboxSeconds], [to, team.teamID, 10])
    assert.ok(cpuSeconds >= 10 && memoryGiBSeconds > 0)
    assert.deepEqual(rest, { gpuSeconds: 0, sentBytes: 0, storedGiBSeconds: 0 })
    const ofPeople = (await usageOf(warren, '?by=person')).json()
    assert.equal(ofPeople.days[0].personID, null)
  })

  it('comes as a table for spreadsheets', async () => {
    await using warren = await openApi()
    await warren.create()
    warren.fixture.clock.advance(1000)
    const { headers, body } = await usageOf(warren, '?format=csv')
    assert.match(String(headers['content-type']), /^text\/csv/)
    assert.match(String(headers['content-disposition']), /^attachment; filename="usage-.*\.csv"$/)
    const [heading, line, end] = body.split('\r\n')
    assert.match(heading!, /^day,teamID,sandboxSeconds,cpuSeconds,/)
    assert.match(line!, /^\d{4}-\d\d-\d\d,[^,]+,1,/)
    assert.equal(end, '')
  })

  it('is rejected for bad days, too many of them, and other teams', async () => {
    await using warren = await openApi()
    const messages = new Map<string, RegExp>([
      ['?from=yesterday', /from/],
      ['?from=2026-02-31', /'2026-02-31' is no day/],
      ['?to=2026-13-01', /'2026-13-01' is no day/],
      ['?from=2026-11-20&to=2026-11-19', /from \(2026-11-20\) is after to/],
      ['?from=2020-01-01&to=2026-01-01', /are too many: one answer has at most 366 days/],
      ['?by=person&from=2026-01-01&to=2026-03-01', /at most 31 days by person/],
      ['?format=xml', /format/],
    ])
    for (const [query, message] of messages) {
      const { status, json } = await usageOf(warren, query)
      assert.equal(status, 400, query)
      assert.match(json().message, message)
    }
    const other = await warren.teams.createTeam('other')
    assert.equal((await warren.ask('GET', `/teams/${other.teamID}/usage`)).status, 403)
    assert.equal((await warren.ask('GET', '/admin/usage')).status, 401)
  })

  it('of all teams is for the operator', async () => {
    await using warren = await openApi()
    await warren.create()
    warren.fixture.clock.advance(1000)
    const { days } = (await warren.ask('GET', '/admin/usage', warren.asAdmin)).json()
    assert.deepEqual(
      days.map(({ teamID, sandboxSeconds }: Record<string, unknown>) => [teamID, sandboxSeconds]),
      [[warren.fixture.team.teamID, 1]],
    )
  })
})

describe('the budget of a team over the API', () => {
  it('is set by the operator, shown to the team, and enforced at once', async () => {
    await using warren = await openApi()
    const { team, clock } = warren.fixture
    const path = `/admin/teams/${team.slug}/budget`
    const change = (body: object) => warren.ask('PATCH', path, { ...warren.asAdmin, body })
    assert.deepEqual((await change({ cpuHours: 5, sentGB: 1 })).json().limits, {
      cpuHours: 5,
      gpuHours: null,
      sentGB: 1,
    })
    await warren.create()
    clock.advance(200_000)
    const { limits, used, state } = (await change({ cpuHours: 0.01, sentGB: null })).json()
    assert.deepEqual([limits, state], [{ cpuHours: 0.01, gpuHours: null, sentGB: null }, 'used up'])
    assert.ok(used.cpuHours > 0.05)
    assert.equal((await usageOf(warren)).json().budget.state, 'used up')
    const { status, json } = await warren.ask('POST', '/v2/sandboxes', { body: { templateID: 'base' } })
    assert.deepEqual([status, /raises the budget/.test(json().message)], [429, true])
    await change({ cpuHours: null })
    await warren.create()
  })

  it('is rejected if it is no budget, of no team, or not asked for by the operator', async () => {
    await using warren = await openApi()
    const path = `/admin/teams/${warren.fixture.team.teamID}/budget`
    for (const body of [
      {},
      { cpuHours: 0 },
      { cpuHours: -1 },
      { cpuHours: 'many' },
      { hours: 1 },
      { sentGB: 1e10 },
    ])
      assert.equal(
        (await warren.ask('PATCH', path, { ...warren.asAdmin, body })).status,
        400,
        JSON.stringify(body),
      )
    const body = { cpuHours: 1 }
    assert.equal((await warren.ask('PATCH', path, { body })).status, 401)
    const nobody = await warren.ask('PATCH', '/admin/teams/nobody/budget', { ...warren.asAdmin, body })
    assert.equal(nobody.status, 404)
  })
})
