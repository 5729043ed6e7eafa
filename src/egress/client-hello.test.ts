import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Duplex } from 'node:stream'
import { describe, it } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { mutate, newSeed, seeded } from '../../test/support/fuzz.ts'
import { longestClientHello, readClientHello } from './client-hello.ts'
import { extension, helloOf, inRecords, serverNameExtension } from './hello-fixture.ts'
import { readBytes } from './sniff.ts'

const name = 'good.example'

/** The first message of a real client. */
async function realHello(options: object): Promise<Buffer> {
  const sent: Buffer[] = []
  const wire = new Duplex({
    read() {},
    write(chunk, _, done) {
      sent.push(chunk)
      done()
      wire.emit('sent')
    },
  })
  const client = connectTls({ socket: wire, servername: name, ...options })
  client.on('error', () => {})
  if (sent.length === 0) await once(wire, 'sent')
  client.destroy()
  return Buffer.concat(sent)
}

describe('the name in a ClientHello', () => {
  it('is read from real clients', async () => {
    for (const options of [{}, { maxVersion: 'TLSv1.2' }, { ALPNProtocols: ['h2', 'http/1.1'] }]) {
      assert.deepEqual(readClientHello(await realHello(options)), { serverName: name, hidesName: false })
    }
    assert.deepEqual(readClientHello(await realHello({ servername: '' })), {
      serverName: null,
      hidesName: false,
    })
  })

  it('is read however the message is cut, and not before it is complete', () => {
    for (const recordBytes of [7, 50, 16_000]) {
      const hello = helloOf({ serverName: name, recordBytes })
      for (let length = 0; length < hello.length; length++) {
        assert.equal(readClientHello(hello.subarray(0, length)), 'more')
      }
      assert.deepEqual(readClientHello(hello), { serverName: name, hidesName: false })
      const early = Buffer.concat([hello, Buffer.from('more')])
      assert.deepEqual(readClientHello(early), { serverName: name, hidesName: false })
    }
  })

  it('is reported as possibly hidden with encrypted ClientHello', () => {
    assert.deepEqual(readClientHello(helloOf({ serverName: name, ech: true })), {
      serverName: name,
      hidesName: true,
    })
  })

  it('keeps the high bits of its bytes, without which it would be another name', () => {
    const read = readClientHello(helloOf({ serverName: 'goo\xe7.example' }))
    assert.deepEqual(read, { serverName: 'goo\xe7.example', hidesName: false })
  })

  it('is rejected if there are two, or none where one is required', () => {
    const twice = helloOf({ serverName: name, extensions: [serverNameExtension('evil.example')] })
    const entry = (text: string) => Buffer.concat([Buffer.from([0, 0, text.length]), Buffer.from(text)])
    const list = Buffer.concat([entry(name), entry('evil.example')])
    const listOfTwo = extension(0, Buffer.concat([Buffer.from([0, list.length]), list]))
    const cases = {
      twice,
      listOfTwo: helloOf({ extensions: [listOfTwo] }),
      emptyName: helloOf({ extensions: [serverNameExtension('')] }),
      emptyExtension: helloOf({ extensions: [extension(0, Buffer.alloc(0))] }),
      otherMessage: inRecords(Buffer.from([2, 0, 0, 1, 0]), 100),
      otherRecord: Buffer.from([23, 3, 3, 0, 1, 0]),
      emptyRecord: Buffer.from([22, 3, 1, 0, 0]),
      tooLong: inRecords(Buffer.from([1, 0, (longestClientHello >> 8) + 1, 0]), 100),
      tooManyRecords: helloOf({ serverName: name, recordBytes: 1 }),
    }
    for (const [title, bytes] of Object.entries(cases)) assert.equal(readClientHello(bytes), null, title)
  })

  it('is never invented, for any bytes, and is read quickly', () => {
    const seed = newSeed()
    const random = seeded(seed)
    const hello = helloOf({ serverName: name, recordBytes: 60, ech: true })
    const started = performance.now()
    for (let turn = 0; turn < 30_000; turn++) {
      const bytes = mutate(hello, random)
      const read = readClientHello(bytes)
      if (read === null || read === 'more' || read.serverName === null) continue
      // Record heads may stand between its bytes, but all of them must be there.
      const letters = new Set(bytes)
      for (const byte of Buffer.from(read.serverName, 'latin1')) assert.ok(letters.has(byte), `seed ${seed}`)
      assert.ok(read.serverName.length > 0 && read.serverName.length < bytes.length, `seed ${seed}`)
    }
    assert.ok(performance.now() - started < 10_000)
  })
})

describe('the first bytes of a connection', () => {
  it('distinguish TLS, HTTP and other protocols as early as possible', () => {
    const kind = (text: string) => readBytes(Buffer.from(text, 'latin1'))?.kind ?? null
    assert.deepEqual(['G', 'GET', 'GET ', 'GET / HT'].map(kind), [null, null, 'http', 'http'])
    assert.deepEqual(
      ['PRI * HTTP/2.0', 'SSH-2.0', '\0', 'get /', `${'A'.repeat(40)}`].map(kind),
      Array(5).fill('other'),
    )
    assert.equal(kind('\x16\x03\x01'), null)
    assert.equal(kind('\x16\x02'), 'other')
  })
})
