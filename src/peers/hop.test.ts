import assert from 'node:assert/strict'
import test from 'node:test'
import { TestPeers } from './peer-fixture.ts'

test('a header of the hop that only a newer node knows does not pass through the door of this one', async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  let got: readonly string[] = []
  await peers.start('other', (request, response) => {
    got = request.rawHeaders.map((name) => name.toLowerCase())
    response.setHeader('Warren-Of-Tomorrow', 'yes')
    response.end()
  })
  peers.owners.set('a', { nodeID: 'other', isMovable: false })
  const headers = { 'Warren-Of-Tomorrow': 'forged', 'X-Of-A-Client': 'kept' }
  const answer = await fetch(`${one.publicURL}/sandboxes/a`, { headers })
  assert.equal(answer.status, 200)
  assert.ok(got.includes('x-of-a-client'))
  assert.ok(!got.includes('warren-of-tomorrow'))
  assert.equal(answer.headers.get('warren-of-tomorrow'), null)
})
