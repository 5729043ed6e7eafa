/** HTTP/2 spoken by hand: what no well-behaved client would send, and how answers are cut into frames. */
import assert from 'node:assert/strict'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { after, before, it } from 'node:test'
import type { Listener } from './http-server.ts'
import { endStream, frameTypes, get, RawClient, startListener } from './http2-fixture.ts'

let listener: Listener
let handler: (request: IncomingMessage, response: ServerResponse) => void
before(async () => {
  listener = await startListener((request, response) => handler(request, response))
})
after(() => listener.close({ graceMs: 100 }))

it('no DATA frame is empty, except one that must end a stream of unknown length', async () => {
  handler = ({ url }, response) => {
    if (url === '/none') response.writeHead(204).end()
    else if (url === '/zero') response.writeHead(200, { 'Content-Length': 0 }).end()
    else if (url === '/known') response.end('known')
    else {
      response.write('first')
      setTimeout(() => response.end('last'), 20)
    }
  }
  const client = await RawClient.open(listener)
  const streams = ['/none', '/zero', '/known', '/unknown'].map((path) => client.request(get(path)))
  for (const stream of streams) await client.settled(stream)
  client.close()
  const empty = client.frames().filter(({ type, length }) => type === frameTypes.data && length === 0)
  assert.deepEqual(
    empty.filter(({ flags, stream }) => !(flags & endStream) || stream !== streams[3]),
    [],
  )
})

const smuggled = Buffer.from('0\r\n\r\nGET /second HTTP/1.1\r\nHost: e2b.test\r\n\r\n')
const hostile: Record<string, [string, string][]> = {
  'a transfer coding': [...get('/first'), ['transfer-encoding', 'chunked']],
  'a length shorter than the body': [...get('/first'), ['content-length', '5']],
  'two lengths': [...get('/first'), ['content-length', '5'], ['content-length', '50']],
  'a line break in a value': [
    ...get('/first'),
    ['x-a', 'b\r\nContent-Length: 0\r\n\r\nGET /second HTTP/1.1'],
  ],
  'a line break in the path': get('/first HTTP/1.1\r\nHost: e2b.test\r\n\r\nGET /second'),
  'a space in the path': get('/first HTTP/1.1'),
  'a line break in the authority': [
    ...get('/first').filter(([name]) => name !== ':authority'),
    [':authority', 'e2b.test\r\n\r\nGET /second HTTP/1.1'],
  ],
  'a line break in the method': [[':method', 'GET /second HTTP/1.1\r\nX: y'], ...get('/first').slice(1)],
  'a colon in a name': [...get('/first'), ['content-length:', '5']],
  'a connection header': [...get('/first'), ['connection', 'x-a, host']],
  'no authority': get('/first').filter(([name]) => name !== ':authority'),
}

for (const [what, fields] of Object.entries(hostile)) {
  it(`${what} does not turn one request into two`, async () => {
    const seen: string[] = []
    handler = async (request, response) => {
      seen.push(request.url ?? '')
      await request.toArray().catch(() => {})
      response.end()
    }
    const client = await RawClient.open(listener)
    await client.settled(client.request(fields, smuggled))
    const next = await RawClient.open(listener)
    await next.settled(next.request(get('/next')))
    client.close()
    next.close()
    assert.deepEqual(
      seen.filter((url) => url !== '/first'),
      ['/next'],
    )
  })
}
