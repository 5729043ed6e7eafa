import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agentToken, edgeFixture } from './edge-fixture.ts'

test('requests for a frozen sandbox are answered at once, for clients that may use it, until it is thawed', async () => {
  await using edge = await edgeFixture()
  const service = await edge.service((_request, response) => response.end('well'))
  const { sandboxID, map } = edge.sandbox({ trafficToken: 'traffic' })
  map(8080, service.port)
  const { runID } = edge.routes.get(sandboxID)!
  const ask = async (token?: string) => {
    const headers = {
      'E2b-Sandbox-Id': sandboxID,
      'E2b-Sandbox-Port': '8080',
      'X-Access-Token': agentToken,
      ...(token !== undefined && { 'e2b-traffic-access-token': token }),
    }
    const answer = await fetch(`http://127.0.0.1:${edge.port}/`, { headers })
    return { status: answer.status, text: await answer.text(), retryAfter: answer.headers.get('retry-after') }
  }
  edge.routes.markFrozen(sandboxID, runID, 'The disk of this server is nearly full.')
  const queued = await ask('traffic')
  assert.deepEqual([queued.status, queued.retryAfter], [507, '10'])
  assert.deepEqual(JSON.parse(queued.text), {
    sandboxId: sandboxID,
    message: 'The disk of this server is nearly full.',
    code: 507,
  })
  assert.equal((await ask()).status, 403)
  edge.routes.letGo(sandboxID, runID)
  assert.equal((await ask('traffic')).text, 'well')
})
