/** Roles and the audit hold at the door of every node. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ApiNode, openApiCluster } from '../../../test/support/api-cluster.ts'
import type { AuditEntry } from '../../contract/rest/audit.ts'

type Made = { sandboxID: string }

test('a change has one line, of the node that makes it, with the address of the client at the door', async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const { sandboxID } = (await (
    await other.call('POST', '/v2/sandboxes', { body: { templateID: 'base' } })
  ).json()) as Made
  const stranger = (await one.fixture.stores.sandboxes.find(sandboxID)) ? other : one
  assert.equal((await stranger.call('DELETE', `/sandboxes/${sandboxID}`)).status, 204)
  await one.callAsAdmin('POST', '/admin/teams/alpha/sandboxes/kill')
  for (const { fixture } of cluster.nodes) await fixture.audit.flush()
  const entries = (await (await one.call('GET', '/teams/alpha/audit')).json()) as AuditEntry[]
  const all = entries.map(({ action, address, status }) => [action, address, status])
  assert.deepEqual(all.toSorted(), [
    ['sandbox.create', '127.0.0.1', 201],
    ['sandbox.kill', '127.0.0.1', 204],
    ['team.kill-sandboxes', '127.0.0.1', 200],
  ])
})

test('a new role counts at once at the door of every node, and a removed member is out everywhere', async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const { team, stores, teams, clock } = one.fixture
  const { teamID } = team
  const member = { teamID, addedBy: 'test', at: clock.now() }
  await stores.members.add({ ...member, email: 'o@example.com', role: 'owner', personID: 'o' })
  await stores.members.add({ ...member, email: 'ada@example.com', role: 'member', personID: 'ada' })
  const grant = { role: 'owner', personID: 'ada', madeBy: null, expiresAt: null } as const
  const { key } = await teams.createKey(teamID, 'laptop', grant)
  const statuses = async () => {
    const headers = { 'x-api-key': key }
    const ask = (node: ApiNode) =>
      node.call('POST', '/secrets', { headers, body: { name: crypto.randomUUID(), value: 'v' } })
    return [(await ask(one)).status, (await ask(other)).status]
  }
  assert.deepEqual(await statuses(), [201, 201])
  const role = await one.call('PATCH', `/teams/${teamID}/members/ada`, { body: { role: 'viewer' } })
  assert.equal(role.status, 204)
  assert.deepEqual(await statuses(), [403, 403])
  const removals = [one, other].map((node) => node.call('DELETE', `/teams/${teamID}/members/ada`))
  const outcomes = (await Promise.all(removals)).map(({ status }) => status)
  assert.deepEqual(outcomes.toSorted(), [204, 404])
  assert.deepEqual(await statuses(), [401, 401])
  const last = [one, other].map((node) => node.call('DELETE', `/teams/${teamID}/members/o`))
  assert.deepEqual(
    (await Promise.all(last)).map(({ status }) => status),
    [409, 409],
  )
})
