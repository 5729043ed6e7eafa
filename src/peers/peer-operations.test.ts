import assert from 'node:assert/strict'
import test from 'node:test'
import { hopHeader } from '../contract/constants.ts'
import type { OfferedSandbox } from '../core/cluster/hand-over.ts'
import type { ClusterNode } from '../core/cluster/node.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { PeerConnections } from './peer-connections.ts'
import { TestPeers } from './peer-fixture.ts'
import { answerOperation, createHandOver } from './peer-operations.ts'

const offered: OfferedSandbox = { sandboxID: 'a', runID: 'r', nodeID: 'one' }
const { signal } = new AbortController()

async function open(t: test.TestContext, take: (offered: OfferedSandbox) => Promise<void>) {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  const other = await peers.start('other', (request, response) => {
    const operations = { 'take offered sandbox': take, 'find signed file': async () => undefined }
    if (!answerOperation(request, response, operations)) response.end('no operation')
  })
  const connections = new PeerConnections(one.identity)
  t.after(() => connections.close())
  const node = { nodeID: 'other', address: `127.0.0.1:${other.inner.port}` } as ClusterNode
  return { peers, one, other, handOver: () => createHandOver(connections)(node, offered, signal) }
}

test('a node offers another one a sandbox, and learns the outcome', async (t) => {
  const got: OfferedSandbox[] = []
  const answers = [undefined, new AppError('unprocessable', 'Not here.'), new Error('Something else.')]
  const { handOver } = await open(t, async (one) => {
    got.push(one)
    const error = answers[got.length - 1]
    if (error) throw error
  })
  await handOver()
  assert.deepEqual(got, [offered])
  await assert.rejects(
    handOver(),
    (error) => isAppError(error, 'unprocessable') && error.message === 'Not here.',
  )
  await assert.rejects(handOver(), (error) => isAppError(error, 'unavailable'))
})

test('a client cannot offer a sandbox, neither at the door of that node nor through another one', async (t) => {
  const { peers, one, other } = await open(t, async () => assert.fail('a client was obeyed'))
  peers.owners.set('a', { nodeID: 'other', isMovable: false })
  const forged = { method: 'POST', headers: { [hopHeader.operation]: 'take offered sandbox' }, body: '{}' }
  for (const { publicURL } of [one, other]) {
    assert.equal(await (await fetch(`${publicURL}/sandboxes/a`, forged)).text(), 'no operation')
  }
})

test('a node that does not answer is reported as such', async (t) => {
  const { handOver, other } = await open(t, async () => {})
  other.inner.server.close().closeAllConnections()
  await assert.rejects(handOver(), (error) => isAppError(error, 'unavailable'))
})
