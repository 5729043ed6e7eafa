import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { HttpWebhookSender } from './sender.ts'

const never = new AbortController().signal
const options = { headers: { 'e2b-webhook-id': 'w' }, body: '{"a":"é"}' }

async function receive(listener: RequestListener) {
  const server = createServer(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const toLoopback = { lookup: async () => ['127.0.0.1'], isClosed: () => false, extraCA: undefined }

describe('a request to a receiver', () => {
  it('goes to the address that was checked, whatever the name resolves to afterwards', async () => {
    const seen: { host: string | undefined; method: string | undefined; body: string; id: unknown }[] = []
    await using receiver = await receive(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      const { host, 'e2b-webhook-id': id } = request.headers
      seen.push({ host, method: request.method, body: Buffer.concat(chunks).toString(), id })
      response.writeHead(202).end()
    })
    const asked: string[] = []
    const sender = new HttpWebhookSender({
      ...toLoopback,
      lookup: async (host) => {
        asked.push(host)
        return asked.length === 1 ? ['127.0.0.1'] : ['10.0.0.1']
      },
      isClosed: (address) => address !== '127.0.0.1',
    })
    const url = `http://receiver.invalid:${receiver.port}/a?b=c`
    assert.equal(await sender.send({ url, ...options }, never), 202)
    assert.deepEqual(asked, ['receiver.invalid'])
    const host = `receiver.invalid:${receiver.port}`
    assert.deepEqual(seen, [{ host, method: 'POST', body: options.body, id: 'w' }])
    await assert.rejects(sender.send({ url, ...options }, never), /internal network/)
    assert.equal(seen.length, 1)
  })

  it('is not made if one of the addresses is closed, and the message does not reveal it', async () => {
    const sender = new HttpWebhookSender({
      ...toLoopback,
      lookup: async () => ['198.51.100.7', '10.1.2.3'],
      isClosed: (address) => address.startsWith('10.'),
    })
    await assert.rejects(sender.send({ url: 'http://x.test/', ...options }, never), (error: Error) => {
      assert.match(error.message, /internal network/)
      assert.doesNotMatch(error.message, /10\.1\.2\.3/)
      return true
    })
    const none = new HttpWebhookSender({ ...toLoopback, lookup: async () => [] })
    await assert.rejects(none.send({ url: 'http://x.test/', ...options }, never), /no IPv4 address/)
    const lost = new HttpWebhookSender({
      ...toLoopback,
      lookup: () => Promise.reject(new Error('ENOTFOUND')),
    })
    await assert.rejects(lost.send({ url: 'http://x.test/', ...options }, never), /could not be looked up/)
  })

  it('does not follow a redirect', async () => {
    const asked: (string | undefined)[] = []
    await using receiver = await receive(({ url }, response) => {
      asked.push(url)
      response.writeHead(302, { location: `http://127.0.0.1:${receiver.port}/elsewhere` }).end()
    })
    const sender = new HttpWebhookSender(toLoopback)
    const send = (path: string) =>
      sender.send({ url: `http://a.test:${receiver.port}${path}`, ...options }, never)
    assert.equal(await send('/first'), 302)
    // A request that followed the redirect would come before this one.
    assert.equal(await send('/second'), 302)
    assert.deepEqual(asked, ['/first', '/second'])
  })

  it('does not read an endless answer', async () => {
    const max = 256 * 2 ** 20
    let sent = 0
    const closed = Promise.withResolvers<void>()
    await using receiver = await receive((_, response) => {
      response.writeHead(200)
      const write = () => {
        let isAccepted = true
        for (; isAccepted && sent < max; sent += 65_536) isAccepted = response.write('x'.repeat(65_536))
        if (sent >= max) response.end()
      }
      response.on('drain', write).on('close', closed.resolve)
      write()
    })
    const sender = new HttpWebhookSender(toLoopback)
    assert.equal(await sender.send({ url: `http://a.test:${receiver.port}/`, ...options }, never), 200)
    await closed.promise
    assert.ok(sent < max, 'all of it was read')
  })

  it('fails with a reason if nobody listens, if the answer is not HTTP, and if it does not come in time', async () => {
    const sender = new HttpWebhookSender(toLoopback)
    const sockets = new Set<Socket>()
    const server = createTcpServer((socket) => {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('data', (data) => data.includes('/bad') && socket.end('SSH-2.0-x\r\n'))
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo
    const send = (path: string, signal = never) =>
      sender.send({ url: `http://a.test:${port}${path}`, ...options }, signal)
    await assert.rejects(send('/bad'), /^AppError: The receiver could not be reached: HPE_/)
    const late = new AbortController()
    const sent = send('/silent', late.signal)
    while (sockets.size < 2) await new Promise((resolve) => setImmediate(resolve))
    late.abort(new Error('too late'))
    await assert.rejects(sent)
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, 'close')
    await assert.rejects(send('/'), /ECONNREFUSED/)
  })
})
