import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { eventually } from '../../test/support/eventually.ts'
import { mutate, newSeed, type Random, seeded } from '../../test/support/fuzz.ts'
import { readAll, startWorld } from './gate-fixture.ts'
import { helloOf } from './hello-fixture.ts'

const names = [
  'good.example',
  'evil.example',
  'GOOD.example.',
  'evil.example:80',
  'good.example\0evil.example',
  '',
]

function randomRequests(random: Random): Buffer {
  const host = () => `Host: ${random.pick(names)}\r\n`
  const lines = [
    'X: y\r\n',
    host(),
    host(),
    'Content-Length: 3\r\n',
    'Transfer-Encoding: chunked\r\n',
    ' folded\r\n',
    '\r\n',
    'Connection: close\r\n',
  ]
  const targets = [
    '/',
    '/',
    '/x',
    '*',
    `http://${random.pick(names)}/`,
    '//evil.example/',
    'evil.example:443',
  ]
  const one = () => {
    // Some are right, so that wrong ones come after right ones too.
    if (random.below(3) === 0) return `GET / HTTP/1.1\r\nHost: ${random.pick(names.slice(0, 4))}\r\n\r\n`
    let text = `${random.pick(['GET', 'POST', 'CONNECT', 'OPTIONS', 'get'])} ${random.pick(targets)} HTTP/1.${random.below(3)}\r\n`
    for (let count = random.below(5); count > 0; count--) text += random.pick(lines)
    return `${text}\r\n${random.pick(['', 'abc', '3\r\nabc\r\n0\r\n\r\n', '0\r\n\r\n'])}`
  }
  const whole = Buffer.from(Array.from({ length: 1 + random.below(3) }, one).join(''), 'latin1')
  return random.below(2) === 0 ? whole : mutate(whole, random)
}

describe('any traffic of a sandbox', () => {
  it('reaches no host that its policy does not name, and the gate keeps working', async () => {
    const seed = newSeed()
    const random = seeded(seed)
    await using world = await startWorld({ limits: { openingMs: 100, headMs: 200 } })
    let good = 0
    const strayed: string[] = []
    const to = await world.http(
      1,
      (request, response) => {
        good++
        if (request.headers.host?.split(':')[0] !== 'good.example') strayed.push(`${request.headers.host}`)
        response.end()
      },
      'good.example',
    )
    const evil = await world.raw(2, 80, (socket) => {
      strayed.push('evil')
      socket.destroy()
    })
    await world.raw(2, 443, (socket) => {
      strayed.push('evil')
      socket.destroy()
    })
    world.dns.zone.set('evil.example', [evil])
    world.admit({ allowNames: ['good.example'] })
    const hello = helloOf({ serverName: 'evil.example', recordBytes: 60 })
    for (let round = 0; round < 20; round++) {
      const sent = Array.from({ length: 20 }, (_, at) =>
        at < 15 ? randomRequests(random) : mutate(hello, random),
      )
      await Promise.all(
        sent.map(async (bytes) => {
          const socket = await world.connect({ address: evil, port: random.pick([80, 443]) })
          socket.end(bytes)
          await readAll(socket)
          socket.destroy()
        }),
      )
    }
    assert.deepEqual(strayed, [], `seed ${seed}`)
    assert.ok(good > 0, 'some requests were right')
    // A busy machine may be slower than the limits of this gate.
    await eventually(async () => {
      const { status, body } = await world.get(to, { Host: 'good.example' })
      assert.equal(status, 200, `${body} (seed ${seed})`)
    })
  })
})
