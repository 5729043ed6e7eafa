/** What an operator reads whose database URL does not fit the TLS of the server. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { TLSSocket } from 'node:tls'
import { isAppError } from '../../lib/app-error.ts'
import { issueCertificate, makeAuthority } from '../../lib/certificates.ts'
import { openStores } from '../open-stores.ts'
import { vault } from '../suite/rows.ts'

const noEncryption = 'no pg_hba.conf entry for host "10.0.0.1", user "warren", no encryption'

/** An error of PostgreSQL's protocol. */
function rejection(code: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0C${code}\0M${message}\0\0`)
  const length = Buffer.alloc(4)
  length.writeInt32BE(4 + fields.length)
  return Buffer.concat([Buffer.from('E'), length, fields])
}

/** Rejects logins without TLS, and has a certificate of an unknown authority. */
async function startTlsOnly(t: TestContext): Promise<number> {
  const { key, certificate } = issueCertificate(makeAuthority('unknown'), { names: ['localhost'], days: 1 })
  const server = createServer((socket: Socket) => {
    socket.on('error', () => {})
    socket.once('data', (first) => {
      // The code of an SSLRequest.
      const wantsTls = (first as Buffer).length === 8 && (first as Buffer).readInt32BE(4) === 80877103
      if (!wantsTls) {
        socket.end(rejection('28000', noEncryption))
        return
      }
      socket.write('S')
      new TLSSocket(socket, { isServer: true, key, cert: certificate }).on('error', () => {})
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return (server.address() as AddressInfo).port
}

const cases = [
  ['without TLS', '', /no encryption.*add \?sslmode=verify-full to WARREN_DATABASE_URL/],
  ['with TLS and an unknown authority', '?sslmode=verify-full', /certificate of PostgreSQL.*sslrootcert/],
] as const

for (const [how, parameters, expected] of cases) {
  test(`a login ${how} is answered with what the URL needs`, async (t) => {
    const port = await startTlsOnly(t)
    const url = `postgres://warren:secret@localhost:${port}/warren${parameters}`
    await assert.rejects(openStores({ url, dataFolder: '/nowhere', vault }), (error) => {
      assert.ok(isAppError(error, 'unavailable'), String(error))
      assert.match(error.message, expected)
      assert.doesNotMatch(error.message, /secret/)
      return true
    })
  })
}
