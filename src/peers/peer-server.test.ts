import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import test, { type TestContext } from 'node:test'
import { until } from '../../test/support/domain.ts'
import { TestPeers } from './peer-fixture.ts'

/** The network in front of a port. While it is slow, it keeps what is sent to the port. */
async function startSlowNetwork(t: TestContext, port: number) {
  const network = { port: 0, isSlow: false, bufferedBytes: 0, connections: 0, closed: 0, release: () => {} }
  const server = createServer({ allowHalfOpen: true }, (from) => {
    const to = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    let buffered: Buffer[] = []
    network.connections++
    from.on('data', (bytes) => {
      if (!network.isSlow) return void to.write(bytes)
      buffered.push(bytes)
      network.bufferedBytes += bytes.length
    })
    to.pipe(from)
    from.on('end', () => buffered.length > 0 || to.end())
    from.on('close', () => buffered.length > 0 || to.destroy()).on('error', () => {})
    to.on('close', () => network.closed++).on('error', () => {})
    const { release } = network
    network.release = () => {
      network.isSlow = false
      release()
      for (const bytes of buffered) to.write(bytes)
      buffered = []
      if (from.destroyed) to.end()
    }
    t.after(() => from.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  network.port = (server.address() as AddressInfo).port
  return network
}

test('a request that meets the end of its idle connection is carried out once, over another one', async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  const other = await peers.start('other', (request, response) => void request.pipe(response))
  const network = await startSlowNetwork(t, other.inner.port)
  other.inner.port = network.port
  peers.owners.set('a', { nodeID: 'other', isMovable: false })
  const post = async (body: string) => {
    const answer = await fetch(`${one.publicURL}/sandboxes/a`, { method: 'POST', body })
    return `${answer.status} ${await answer.text()}`
  }
  assert.equal(await post('first'), '200 first')
  assert.equal(await post('on the same connection'), '200 on the same connection')
  assert.equal(network.connections, 1)

  network.isSlow = true
  const asked = post('late')
  await until(async () => network.bufferedBytes > 0)
  other.inner.rejectIdle()
  await until(async () => network.connections === 2)
  network.release()
  assert.equal(await asked, '200 late')
  await until(async () => network.closed === 1)
  assert.equal(other.answered.length, 3)
})

test('a connection with a request is not turned away, and one without is closed', async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  const answers: (() => void)[] = []
  const other = await peers.start('other', (_request, response) => {
    answers.push(() => response.end('answered'))
  })
  peers.owners.set('a', { nodeID: 'other', isMovable: false })
  const asked = fetch(`${one.publicURL}/sandboxes/a`, { method: 'POST', body: 'x' })
  await until(async () => answers.length === 1)
  other.inner.rejectIdle()
  answers[0]!()
  assert.equal(await (await asked).text(), 'answered')
  const open = () =>
    new Promise<number>((done) => other.inner.server.getConnections((_, count) => done(count)))
  assert.equal(await open(), 1)
  await until(async () => {
    other.inner.rejectIdle()
    return (await open()) === 0
  })
})
