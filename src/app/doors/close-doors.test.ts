import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { it } from 'node:test'
import { delay, ManualClock } from '../../lib/clock.ts'
import { RequestsUnderWay } from '../../lib/requests-under-way.ts'
import { closeDoors } from './close-doors.ts'
import { createListener } from './http-server.ts'

it('a server that closes answers the requests that have just come, and cuts older streams', async () => {
  const listener = createListener({ keepAliveTimeout: 300_000 }, undefined)
  const clock = new ManualClock()
  const underWay = new RequestsUnderWay({ now: () => clock.now(), after: (ms, act) => delayed(ms, act) })
  underWay.watch(listener.server)
  const unanswered = new Map<string, ServerResponse>()
  listener.server.on('request', (request, response) => {
    response.write('begun ')
    unanswered.set(request.url!, response)
  })
  await listener.listen('127.0.0.1', 0)
  const { port } = listener.server.address() as AddressInfo
  const ask = async (path: string) =>
    (await once(get({ port, path, agent: false }), 'response'))[0] as IncomingMessage
  const stream = await ask('/stream')
  clock.advance(5000)
  const command = await ask('/command')
  const isCut = once(stream.resume(), 'error')
  let tunnels = 'open'
  const closed = closeDoors({
    doors: [listener.close],
    underWay,
    isInUse: () => false,
    cutTunnels: () => {
      tunnels = 'cut'
    },
  })
  // Longer than any request may take that is no longer young.
  await delay(1500)
  assert.equal(tunnels, 'open')
  unanswered.get('/command')!.end('and ended')
  assert.equal(Buffer.concat(await command.toArray()).toString(), 'begun and ended')
  assert.match(String((await isCut)[0]), /aborted/)
  await closed
  assert.equal(tunnels, 'cut')
})

function delayed(ms: number, act: () => void): () => void {
  const timer = setTimeout(act, ms)
  return () => clearTimeout(timer)
}
