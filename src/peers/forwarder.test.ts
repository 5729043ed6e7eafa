import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { request as httpsRequest } from 'node:https'
import test from 'node:test'
import { until } from '../../test/support/domain.ts'
import { hopHeader } from '../contract/constants.ts'
import { SecretVault } from '../core/secret/vault.ts'
import { originOf } from '../lib/client-origin.ts'
import { type Handler, type TestNode, TestPeers } from './peer-fixture.ts'
import { openPeerIdentity, peerName, requireSharedSecrets } from './peer-identity.ts'

const owned = (nodeID: string, isMovable = false) => ({ nodeID, isMovable })

test('a request reaches the owner through another door, with its body, and the answer comes back', async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  const other = await peers.start('other', (request, response) => {
    const hash = createHash('sha256')
    request
      .on('data', (piece) => hash.update(piece))
      .on('end', () => {
        response.writeHead(201, { 'X-Answer': 'kept', 'Content-Type': 'text/plain' })
        response.end(`${request.method} ${request.url} ${request.headers['x-asked']} ${hash.digest('hex')}`)
      })
  })
  peers.owners.set('a', owned('other'))
  for (const size of [0, 10, 60_000, 3_000_000]) {
    const body = Buffer.alloc(size, 'x')
    const answer = await fetch(`${one.publicURL}/sandboxes/a?x=%20y`, {
      method: 'POST',
      headers: { 'X-Asked': 'kept' },
      body,
    })
    const digest = createHash('sha256').update(body).digest('hex')
    assert.deepEqual([answer.status, answer.headers.get('x-answer')], [201, 'kept'])
    assert.equal(await answer.text(), `POST /sandboxes/a?x=%20y kept ${digest}`)
  }
  assert.equal(one.answered.length, 0)
  assert.equal(other.answered.length, 4)
  assert.equal(
    peers.reads,
    1 + 1 + 4,
    'the door asks for the owner once, and once more for a body that it cannot send twice; the owner asks each time whether it still is',
  )
})

test('the owner sees a request under the id from the door, or from the client', async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  const other = await peers.start('other')
  peers.owners.set('a', owned('other'))
  await fetch(`${one.publicURL}/sandboxes/a`)
  await fetch(`${one.publicURL}/sandboxes/a`, { headers: { 'X-Request-Id': 'mine' } })
  const [first, second] = other.answered.map(({ headers }) => headers['x-request-id'])
  assert.match(String(first), /^[0-9a-f]{16}$/)
  assert.equal(second, 'mine')
})

test("a client's hop headers are removed, and the owner learns the client's address", async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  const other = await peers.start('other')
  peers.owners.set('a', owned('other'))
  const forged = Object.fromEntries(Object.values(hopHeader).map((name) => [name, 'https']))
  await fetch(`${one.publicURL}/sandboxes/a`, { headers: { ...forged, 'x-mine': 'kept' } })
  const [request] = other.answered
  assert.deepEqual(originOf(request!), { address: '127.0.0.1', protocol: 'http' })
  assert.equal(other.forwarder.capacityNeeded(request!), undefined)
  assert.equal(other.forwarder.isFromPeer(request!), true)
  assert.equal(request!.headers['x-mine'], 'kept')
  for (const name of Object.values(hopHeader)) assert.equal(request!.headers[name], undefined, name)
  assert.ok(!request!.rawHeaders.some((name) => /^warren-/i.test(name)))
})

test('a client that forges the hop headers at a public door is no peer', async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  peers.owners.set('a', owned('one'))
  const forged = Object.fromEntries(Object.values(hopHeader).map((name) => [name, '1 1']))
  await fetch(`${one.publicURL}/sandboxes/a`, { headers: forged })
  const [request] = one.answered
  assert.equal(one.forwarder.isFromPeer(request!), false)
  assert.equal(one.forwarder.capacityNeeded(request!), undefined)
})

test('the inner door accepts certificates of the cluster only', async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  const ask = (options: object) =>
    new Promise<number | undefined>((resolve, reject) => {
      const request = httpsRequest({
        host: '127.0.0.1',
        port: one.inner.port,
        path: '/sandboxes/a',
        rejectUnauthorized: false,
        ...options,
      })
      request.on('response', (answer) => resolve(answer.resume().statusCode)).on('error', reject)
      request.end()
    })
  await assert.rejects(ask({}), 'no certificate')
  const foreign = new TestPeers(t)
  const vault = new SecretVault('b'.repeat(64))
  const stranger = await openPeerIdentity({ share: foreign.share }, vault, 'other')
  await assert.rejects(ask({ cert: stranger.certificate, key: stranger.key }), 'another authority')
  await assert.rejects(fetch(`http://127.0.0.1:${one.inner.port}/sandboxes/a`), 'no TLS')
  assert.equal(one.answered.length, 0)
  const { certificate: cert, key, authority: ca } = one.identity
  const known = { cert, key, ca, rejectUnauthorized: true, servername: peerName('one') }
  assert.equal(await ask(known), 200)
})

test('a node at the address of another one is recognized as another', async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  const other = await peers.start('other')
  peers.nodes.set('third', { ...other, nodeID: 'third' })
  peers.owners.set('a', owned('third'))
  const answer = await fetch(`${one.publicURL}/sandboxes/a`)
  assert.equal(answer.status, 503)
  assert.equal(other.answered.length, 0)
})

test('if the owner has changed, the door looks again, and the new owner gets the same request', async (t) => {
  const peers = new TestPeers(t)
  const [one, other] = [await peers.start('one'), await peers.start('other')]
  const third = await peers.start('third', (request, response) => {
    request.pipe(response)
  })
  peers.owners.set('a', owned('other'))
  await fetch(`${one.publicURL}/sandboxes/a`)
  peers.owners.set('a', owned('third'))
  const answer = await fetch(`${one.publicURL}/sandboxes/a`, { method: 'POST', body: 'the same' })
  assert.equal(await answer.text(), 'the same')
  assert.deepEqual([other.answered.length, third.answered.length], [1, 1])
  // Now the door itself is the owner, and has remembered another.
  peers.owners.set('a', owned('one'))
  assert.equal(
    await (await fetch(`${one.publicURL}/sandboxes/a`, { method: 'POST', body: 'x' })).text(),
    'one',
  )
})

/** A body whose length the client does not say, in two pieces with a pause between them. */
async function* inPieces(pieces: readonly (string | Promise<string>)[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) {
    yield Buffer.from(await piece)
    await new Promise(setImmediate)
  }
}

const streamed = (...pieces: (string | Promise<string>)[]) =>
  ({ method: 'POST', body: ReadableStream.from(inPieces(pieces)), duplex: 'half' }) as RequestInit

test('every verb finds the new owner through a door that remembers the old one, however its body comes', async (t) => {
  const peers = new TestPeers(t)
  const [one] = [await peers.start('one'), await peers.start('other')]
  const echo: Handler = (request, response) => void request.pipe(response)
  await peers.start('third', echo)
  const long = 'x'.repeat(500_000)
  for (const [init, expected] of [
    [{ method: 'POST', body: 'whole' }, 'whole'],
    [streamed('in ', 'pieces'), 'in pieces'],
    [streamed(long, 'end'), `${long}end`],
    [{ method: 'PUT', body: long }, long],
    [{ method: 'DELETE' }, ''],
    [{ method: 'PATCH', body: 'changed' }, 'changed'],
  ] as const) {
    peers.owners.set('a', owned('other'))
    await fetch(`${one!.publicURL}/sandboxes/a`)
    peers.owners.set('a', owned('third'))
    const answer = await fetch(`${one!.publicURL}/sandboxes/a`, init as RequestInit)
    assert.deepEqual([answer.status, await answer.text()], [200, expected], init.method)
  }
})

test('a conversation whose client waits for an answer before it sends on is carried at once', async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  await peers.start('other', (request, response) => void request.pipe(response))
  peers.owners.set('a', owned('other'))
  const rest = Promise.withResolvers<string>()
  const answer = await fetch(`${one.publicURL}/sandboxes/a`, streamed('first', rest.promise))
  const reader = answer.body!.getReader()
  assert.equal(Buffer.from((await reader.read()).value!).toString(), 'first')
  rest.resolve(' second')
  assert.equal(Buffer.from((await reader.read()).value!).toString(), ' second')
  assert.equal((await reader.read()).done, true)
})

test('a body that the owner rejects after the door has looked it up is not sent twice', async (t) => {
  const peers = new TestPeers(t)
  const [one] = [await peers.start('one'), await peers.start('other'), await peers.start('third')]
  peers.owners.set('a', owned('other'))
  await fetch(`${one!.publicURL}/sandboxes/a`)
  let reads = 0
  peers.onRead = () => {
    // The door looks first, then the owner does.
    if (++reads === 2) peers.owners.set('a', owned('third'))
  }
  const long = { method: 'POST', body: Buffer.alloc(500_000) }
  const migrating = await fetch(`${one!.publicURL}/sandboxes/a`, long)
  assert.deepEqual([migrating.status, migrating.headers.get('retry-after')], [503, '1'])
  assert.equal(await (await fetch(`${one!.publicURL}/sandboxes/a`, long)).text(), 'third')
})

test('a request for a sandbox of an absent node gets 503 with a time to retry, or is taken over from the object store', async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  const other = await peers.start('other')
  peers.owners.set('a', owned('other')).set('b', owned('other', true))
  peers.unreachable.add('other')
  const refused = await fetch(`${one.publicURL}/sandboxes/a`)
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '5'])
  assert.match(await refused.text(), /sandbox a is on node other, which has given no sign of life lately/)
  assert.equal(await (await fetch(`${one.publicURL}/sandboxes/b`)).text(), 'one')
  assert.deepEqual(peers.claimed, ['b'])
  other.inner.server.close().closeAllConnections()
  peers.unreachable.delete('other')
  const gone = await fetch(`${one.publicURL}/sandboxes/a`)
  assert.deepEqual([gone.status, gone.headers.get('retry-after')], [503, '1'])
})

test('an answer that breaks off at the owner breaks off at the door', async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  await peers.start('other', (_request, response) => {
    response.writeHead(200, { 'Content-Length': 100 })
    response.write('half', () => response.destroy())
  })
  peers.owners.set('a', owned('other'))
  const answer = await fetch(`${one.publicURL}/sandboxes/a`)
  await assert.rejects(answer.text())
})

test('a node with other secrets may not join, and the error names the file to copy', async (t) => {
  const nodes = new TestPeers(t)
  const secrets = { seed: 'seed', adminToken: 'token' }
  await requireSharedSecrets(nodes, secrets, { keyID: 'k' })
  await requireSharedSecrets(nodes, secrets, { keyID: 'k' })
  await assert.rejects(
    requireSharedSecrets(nodes, { ...secrets, seed: 'x' }, { keyID: 'k' }),
    /secrets\.json is not/,
  )
  await assert.rejects(requireSharedSecrets(nodes, secrets, { keyID: 'other' }), /secret-key\.json is not/)
})

test('a request waits at its owner until the sandbox has moved, and follows it', async (t) => {
  const peers = new TestPeers(t)
  const [one] = [await peers.start('one'), await peers.start('other')]
  peers.owners.set('a', owned('one'))
  peers.settled = async (id) => void peers.owners.set(id, owned('other'))
  assert.equal(await (await fetch(`${one!.publicURL}/sandboxes/a`)).text(), 'other')
})

test('memory of an absent node that does not fit here stays there, until its owner asks for the files only', async (t) => {
  const peers = new TestPeers(t)
  const [one] = [await peers.start('one'), await peers.start('other')]
  peers.owners.set('a', owned('other', true))
  peers.unreachable.add('other')
  peers.unfit.add('a')
  assert.match(await (await fetch(`${one!.publicURL}/sandboxes/a`)).text(), /memory does not fit/)
  assert.deepEqual(peers.claimed, [])
  await one!.forwarder.takeOver('a', { memory: false })
  assert.equal(await (await fetch(`${one!.publicURL}/sandboxes/a`)).text(), 'one')
})

/** The inner door of a node closes, and opens again at the same port. */
async function closeDoor({ inner }: TestNode): Promise<() => Promise<void>> {
  const { server, port } = inner
  const closed = once(server, 'close')
  server.close().closeAllConnections()
  await closed
  return async () => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
}

test('requests for a node that restarts wait for it, with their bodies, and are each carried out once', async (t) => {
  const peers = new TestPeers(t)
  peers.queueWithinMs = 20_000
  const one = await peers.start('one')
  const other = await peers.start('other', (request, response) => void request.pipe(response))
  peers.owners.set('a', owned('other'))
  const reopen = await closeDoor(other)
  const long = 'x'.repeat(500_000)
  const asked = [
    { method: 'POST', body: 'whole' },
    streamed('in ', 'pieces'),
    streamed(long, 'end'),
    { method: 'GET' },
  ].map((init) => fetch(`${one.publicURL}/sandboxes/a`, init as RequestInit))
  await until(async () => peers.failedDials >= asked.length)
  await reopen()
  const texts = await Promise.all((await Promise.all(asked)).map((answer) => answer.text()))
  assert.deepEqual(texts, ['whole', 'in pieces', `${long}end`, ''])
  assert.equal(other.answered.length, asked.length)
})

test('a request that a node may have carried out is not repeated, and one that changes nothing is', async (t) => {
  const peers = new TestPeers(t)
  peers.queueWithinMs = 20_000
  const one = await peers.start('one')
  let breaks = 2
  const other = await peers.start('other', (request, response) => {
    request.resume()
    if (breaks-- > 0) request.socket.destroy()
    else response.end('answered')
  })
  peers.owners.set('a', owned('other'))
  const lost = await fetch(`${one.publicURL}/sandboxes/a`, { method: 'POST', body: 'x' })
  assert.equal(lost.status, 503)
  assert.match(await lost.text(), /It may have carried out the request/)
  assert.equal(await (await fetch(`${one.publicURL}/sandboxes/a`)).text(), 'answered')
  assert.equal(other.answered.length, 3)
})

test('a node that stays away is waited for within a bound, and one that is long gone not at all', async (t) => {
  const peers = new TestPeers(t)
  peers.queueWithinMs = 300
  const [one, other] = [await peers.start('one'), await peers.start('other')]
  peers.owners.set('a', owned('other'))
  await closeDoor(other)
  const gone = await fetch(`${one.publicURL}/sandboxes/a`)
  assert.deepEqual([gone.status, gone.headers.get('retry-after')], [503, '1'])
  assert.match(await gone.text(), /Node other cannot be reached now\. Nothing is lost/)
  const before = peers.failedDials
  await fetch(`${one.publicURL}/sandboxes/a`)
  assert.equal(peers.failedDials, before + 1, 'the second request does not wait')
})

test('a sandbox that comes to the door while its request waits is answered there', async (t) => {
  const peers = new TestPeers(t)
  peers.queueWithinMs = 20_000
  const [one, other] = [
    await peers.start('one', (request, response) => void request.pipe(response)),
    await peers.start('other'),
  ]
  peers.owners.set('a', owned('other'))
  await fetch(`${one.publicURL}/sandboxes/a`)
  const reopen = await closeDoor(other)
  const answer = fetch(`${one.publicURL}/sandboxes/a`, { method: 'POST', body: 'mine' })
  await until(async () => peers.failedDials >= 1)
  peers.owners.set('a', owned('one'))
  await reopen()
  assert.equal(await (await answer).text(), 'mine')
  assert.equal(other.answered.length, 1)
})

test('a request that breaks its node off each time is sent three times at most', async (t) => {
  const peers = new TestPeers(t)
  peers.queueWithinMs = 30_000
  const one = await peers.start('one')
  const other = await peers.start('other', (request) => request.socket.destroy())
  peers.owners.set('a', owned('other'))
  const answer = await fetch(`${one.publicURL}/sandboxes/a`, { signal: AbortSignal.timeout(10_000) })
  assert.equal(answer.status, 503)
  assert.equal(other.answered.length, 3)
})
