import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { AppError } from '../lib/app-error.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import type { ApiCluster } from './context.ts'

/** A paused sandbox, as if its node were away and its memory of no use here. */
async function openMisfit() {
  const claimed: string[] = []
  const state = { isAway: false }
  const forwarder = {
    isFromPeer: () => false,
    whyMissing: async () => undefined,
    reportMade: () => {},
    forward: async () => (state.isAway ? 'absent' : 'here'),
    async takeOver(sandboxID: string, { memory }: { memory: boolean }) {
      if (memory) throw new AppError('unprocessable', 'The memory cannot be used on this machine.')
      claimed.push(sandboxID)
      return true
    },
  }
  const placer = { placeCreate: async () => false }
  const warren = await openApi({ cluster: { nodeID: 'here', forwarder, placer } as unknown as ApiCluster })
  const sandboxID = await warren.create()
  await warren.ask('POST', `/sandboxes/${sandboxID}/pause`)
  state.isAway = true
  return { ...warren, sandboxID, claimed }
}

test('a sandbox that cannot resume here with its memory can still be killed', async () => {
  await using warren = await openMisfit()
  const { ask, sandboxID, claimed, fixture } = warren
  assert.equal((await ask('DELETE', `/sandboxes/${sandboxID}`)).status, 204)
  assert.deepEqual(claimed, [sandboxID])
  assert.equal((await fixture.stores.sandboxes.find(sandboxID))?.state, 'ended')
})

test('a sandbox that cannot resume here with its memory boots from its files if the client asks for that', async () => {
  await using warren = await openMisfit()
  const { ask, sandboxID, claimed } = warren
  const body = { timeout: 60, memory: false }
  assert.equal((await ask('POST', `/sandboxes/${sandboxID}/connect`, { body })).status, 201)
  assert.deepEqual(claimed, [sandboxID])
})

test('a resume with memory that cannot succeed here is rejected with the reason, and the sandbox stays where it is', async () => {
  await using warren = await openMisfit()
  const { ask, sandboxID, claimed } = warren
  for (const verb of ['connect', 'resume']) {
    const answer = await ask('POST', `/sandboxes/${sandboxID}/${verb}`, { body: { timeout: 60 } })
    assert.equal(answer.status, 422)
    assert.match(answer.body, /memory cannot be used on this machine/)
  }
  assert.deepEqual(claimed, [])
})

test("only the sandbox's own team can make it lose its memory", async () => {
  await using warren = await openMisfit()
  const { ask, sandboxID, claimed, teams } = warren
  const nobody = await ask('DELETE', `/sandboxes/${sandboxID}`, { headers: { 'x-api-key': 'e2b_none' } })
  assert.equal(nobody.status, 401)
  const { teamID } = await teams.createTeam('Beta')
  const { key } = await teams.createKey(teamID, 'test')
  const stranger = await ask('DELETE', `/sandboxes/${sandboxID}`, { headers: { 'x-api-key': key } })
  assert.equal(stranger.status, 404)
  assert.deepEqual(claimed, [])
})

test('a request goes to the node that took the sandbox over a moment earlier', async () => {
  const asked: string[] = []
  const forwarder = {
    isFromPeer: () => false,
    whyMissing: async () => undefined,
    reportMade: () => {},
    async forward(_: unknown, { request, response }: HttpExchange) {
      if (request.method === 'POST' && request.url === '/sandboxes') return 'here'
      asked.push('forward')
      if (asked.length === 1) return 'absent'
      for await (const chunk of request) asked.push(String(chunk))
      response.writeHead(201).end('answered by the other node')
      return 'answered'
    },
    async takeOver() {
      asked.push('take over')
      return false
    },
  }
  const placer = { placeCreate: async () => false }
  await using warren = await openApi({
    cluster: { nodeID: 'here', forwarder, placer } as unknown as ApiCluster,
  })
  const sandboxID = await warren.create()
  const answer = await warren.ask('POST', `/sandboxes/${sandboxID}/connect`, { body: { timeout: 60 } })
  assert.deepEqual([answer.status, answer.body], [201, 'answered by the other node'])
  assert.deepEqual(asked, ['forward', 'take over', 'forward', '{"timeout":60}'])
})
