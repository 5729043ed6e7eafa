import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type IncomingMessage, request as openRequest } from 'node:http'
import test from 'node:test'
import { until } from '../../test/support/domain.ts'
import { isProcessThere } from '../lib/liveness-probe.ts'
import { PeerConnections } from './peer-connections.ts'
import { TestPeers } from './peer-fixture.ts'

test('a node that changes its address answers the requests that it has got at the earlier one', async (t) => {
  const peers = new TestPeers(t)
  const answers: (() => void)[] = []
  const { identity } = await peers.start('one')
  const { inner } = await peers.start('other', (_request, response) => {
    answers.push(() => response.end('answered'))
  })
  peers.owners.set('a', { nodeID: 'other', isMovable: false })
  const connections = new PeerConnections(identity)
  t.after(() => connections.close())
  const agent = connections.poolFor({ nodeID: 'other', address: `127.0.0.1:${inner.port}` })
  const request = openRequest({ agent, path: '/sandboxes/a' }).end()
  const answered = once(request, 'response') as Promise<[IncomingMessage]>
  await until(async () => answers.length === 1)
  connections.poolFor({ nodeID: 'other', address: 'localhost:1' })
  answers[0]!()
  const [answer] = await answered
  assert.equal(Buffer.concat(await answer.toArray()).toString(), 'answered')
})

test('a node tells by its inner door that its process lives', async (t) => {
  const { inner } = await new TestPeers(t).start('one')
  assert.equal(await isProcessThere({ host: '127.0.0.1', port: inner.port }), true)
})
