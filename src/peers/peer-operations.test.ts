import assert from 'node:assert/strict'
import test from 'node:test'
import { hopHeader } from '../contract/constants.ts'
import type { OfferedSandbox } from '../core/cluster/hand-over.ts'
import type { ClusterNode } from '../core/cluster/node.ts'
import type { MemoryNeeds } from '../core/ports/driver.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { PeerConnections } from './peer-connections.ts'
import { TestPeers } from './peer-fixture.ts'
import { answerOperation, createAskWhyUnfit, createHandOver, type PeerOperations } from './peer-operations.ts'

const offered: OfferedSandbox = { sandboxID: 'a', runID: 'r', nodeID: 'one' }
const { signal } = new AbortController()

async function open(t: test.TestContext, claim: (offered: OfferedSandbox) => Promise<void>) {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  const other = await peers.start('other', (request, response) => {
    const operations = {
      'take offered sandbox': claim,
      'find signed file': async () => undefined,
      'say why memory is unfit': async ({ needs }: { needs: MemoryNeeds }) => needs.cpu,
    }
    if (!answerOperation(request, response, operations)) response.end('no operation')
  })
  const connections = new PeerConnections(one.identity)
  t.after(() => connections.close())
  const node = { nodeID: 'other', address: `127.0.0.1:${other.inner.port}` } as ClusterNode
  return {
    peers,
    one,
    other,
    connections,
    node,
    handOver: () => createHandOver(connections)(node, offered, signal),
  }
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

test('a node says why memory is unfit; one that does not know the question or the offer is told apart from a failure', async (t) => {
  const { connections, node, handOver } = await open(t, async () => {})
  const ask = (to: ClusterNode) => createAskWhyUnfit(connections)(to, { cpu: 'It needs avx.' }, signal)
  assert.equal(await ask(node), 'It needs avx.')
  const peers = new TestPeers(t)
  const older = await peers.start('older', (request, response) => {
    if (!answerOperation(request, response, {} as PeerOperations)) response.writeHead(404).end('{"code":404}')
  })
  const oldest = await peers.start('oldest', (_request, response) => {
    response.writeHead(404).end('{"code":404}')
  })
  const failing = await peers.start('failing', (_request, response) => {
    response.writeHead(503).end('{}')
  })
  const [one] = [await peers.start('one')]
  const own = new PeerConnections(one.identity)
  t.after(() => own.close())
  const at = (nodeID: string, { inner }: typeof older) =>
    ({ nodeID, address: `127.0.0.1:${inner.port}` }) as ClusterNode
  for (const other of [at('older', older), at('oldest', oldest)]) {
    assert.equal(await createAskWhyUnfit(own)(other, {}, signal), undefined)
    await assert.rejects(createHandOver(own)(other, offered, signal), (error) =>
      isAppError(error, 'unavailable'),
    )
  }
  await assert.rejects(createAskWhyUnfit(own)(at('failing', failing), {}, signal), (error) =>
    isAppError(error, 'unavailable'),
  )
  await handOver()
})

test('a node that does not answer is reported as such', async (t) => {
  const { handOver, other } = await open(t, async () => {})
  other.inner.server.close().closeAllConnections()
  await assert.rejects(handOver(), (error) => isAppError(error, 'unavailable'))
})
