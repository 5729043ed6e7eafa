import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { LoneNode } from '../core/cluster/lone-node.ts'
import { createEdge } from '../edge/edge.ts'
import { silentLog } from '../lib/log.ts'

/** Two Warrens that share a database and know nothing of each other. */
async function openPair(t: TestContext) {
  const databaseFolder = mkdtempSync(join(tmpdir(), 'warren-pair-'))
  const open = async (nodeID: string) => {
    const loneNode = ({ stores }: { stores: { owners: ConstructorParameters<typeof LoneNode>[0] } }) =>
      new LoneNode(stores.owners, nodeID)
    const warren = await openApi({ fixture: { databaseFolder, nodeID }, loneNode })
    t.after(() => warren[Symbol.asyncDispose]())
    return warren
  }
  t.after(() => rmSync(databaseFolder, { recursive: true, force: true }))
  return [await open('one'), await open('other')] as const
}

const words = /is on node other, .* this one has no WARREN_PEER_ADDRESS\. .*docs\/cluster\.md/

test('a Warren in no cluster tells its team on which other one a sandbox or volume is', async (t) => {
  const [one, other] = await openPair(t)
  const sandboxID = await other.create()
  const { volumeID } = (await other.ask('POST', '/volumes', { body: { name: 'files' } })).json()
  assert.equal((await one.ask('GET', '/v2/sandboxes')).json()[0].sandboxID, sandboxID)
  const asked = [
    await one.ask('DELETE', `/sandboxes/${sandboxID}`),
    await one.ask('POST', `/sandboxes/${sandboxID}/connect`, { body: { timeout: 60 } }),
    await one.ask('GET', `/v2/sandboxes/${sandboxID}/logs`),
    await one.ask('DELETE', `/volumes/${volumeID}`),
  ]
  for (const answer of asked) {
    assert.equal(answer.status, 421)
    assert.match(answer.json().message, words)
  }
  assert.equal((await other.ask('DELETE', `/sandboxes/${sandboxID}`)).status, 204)
  assert.equal((await one.ask('DELETE', `/sandboxes/${sandboxID}`)).status, 404)
})

test('another team does not learn that there is such a sandbox', async (t) => {
  const [one, other] = await openPair(t)
  const sandboxID = await other.create()
  const { teamID } = await one.teams.createTeam('Beta')
  const { key } = await one.teams.createKey(teamID, 'test')
  const answer = await one.ask('DELETE', `/sandboxes/${sandboxID}`, { headers: { 'x-api-key': key } })
  assert.equal(answer.status, 404)
})

test('traffic for a sandbox of another Warren is answered with the address of that Warren', async (t) => {
  const [one, other] = await openPair(t)
  const sandboxID = await other.create()
  const { routes, findResumable, findDemand, stores } = one.fixture
  const forwarder = new LoneNode(stores.owners, 'one')
  const edge = createEdge({ routes, findResumable, findDemand, forwarder, domain: null, log: silentLog })
  const server = createServer()
  edge.attach(server, (_, response) => response.end())
  t.after(() => server.close().closeAllConnections())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const ask = (id: string) =>
    fetch(`http://127.0.0.1:${port}/`, { headers: { 'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': '80' } })
  const answer = await ask(sandboxID)
  assert.equal(answer.status, 421)
  assert.match(((await answer.json()) as { message: string }).message, words)
  assert.equal((await ask('unknown')).status, 502)
})
