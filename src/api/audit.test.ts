import assert from 'node:assert/strict'
import { it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { silentLog } from '../lib/log.ts'

it('every change by a key or by the operator gets one line in the log, and a read gets none', async () => {
  const lines: Record<string, unknown>[] = []
  const info = (fields: object) => {
    if ('audit' in fields) lines.push({ ...fields })
  }
  await using warren = await openApi({ log: { ...silentLog, info } })
  const sandboxID = await warren.create()
  await warren.ask('GET', '/v2/sandboxes')
  await warren.ask('DELETE', `/sandboxes/${sandboxID}`)
  await warren.ask('DELETE', '/sandboxes/inone')
  await warren.ask('DELETE', `/sandboxes/${sandboxID}`, { headers: { 'x-api-key': 'e2b_wrong' } })
  await warren.ask('POST', '/admin/teams', { body: { name: 'beta' }, ...warren.asAdmin })
  const shown = lines.map(({ credential, method, route, sandboxID: id, status }) => [
    ...[credential, method, route, id, status],
  ])
  const route = '/sandboxes/:sandboxID'
  assert.deepEqual(shown, [
    ['api key', 'POST', '/v2/sandboxes', undefined, 201],
    ['api key', 'DELETE', route, sandboxID, 204],
    ['api key', 'DELETE', route, 'inone', 404],
    ['admin token', 'POST', '/admin/teams', undefined, 201],
  ])
  const { team } = warren.fixture
  const [key] = await warren.teams.listKeys(team.teamID)
  assert.deepEqual([lines[0]?.teamID, lines[0]?.credentialID], [team.teamID, key?.keyID])
})
