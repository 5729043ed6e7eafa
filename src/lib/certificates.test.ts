import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { connect, createServer, type TLSSocket } from 'node:tls'
import { issueCertificate, makeAuthority } from './certificates.ts'
import { ManualClock } from './clock.ts'
import { runCommand } from './run-command.ts'

const names = ['e2b.test', '*.e2b.test', 'localhost']
const addresses = ['127.0.0.1', '::1', '2001:db8::7:0:1', '::ffff:10.1.2.3']

it('a strict verifier accepts a certificate for every name and address in it', async () => {
  const authority = makeAuthority('Warren test, "quoted" – ümlaut')
  const leaf = issueCertificate(authority, { names, addresses, days: 90 })
  const folder = await mkdtemp(join(tmpdir(), 'certificates-'))
  try {
    await writeFile(join(folder, 'ca.pem'), authority.certificate)
    await writeFile(join(folder, 'leaf.pem'), leaf.certificate)
    const verify = ['verify', '-x509_strict', '-purpose', 'sslserver', '-CAfile', 'ca.pem']
    const asked = [
      ...['e2b.test', 'a.e2b.test', 'localhost'].map((name) => ['-verify_hostname', name]),
      ...addresses.map((address) => ['-verify_ip', address]),
    ]
    for (const subject of asked) {
      await runCommand('openssl', [...verify, ...subject, 'leaf.pem'], { cwd: folder })
    }
    for (const other of ['other.test', 'a.b.e2b.test']) {
      const refused = runCommand('openssl', [...verify, '-verify_hostname', other, 'leaf.pem'], {
        cwd: folder,
      })
      await assert.rejects(refused, /hostname mismatch/i)
    }
  } finally {
    await rm(folder, { recursive: true })
  }
})

it('a server with the certificate is trusted through its authority, and not through another', async () => {
  const authority = makeAuthority('ours')
  const leaf = issueCertificate(authority, { names, days: 1 })
  const server = createServer({ cert: leaf.certificate, key: leaf.key }, (socket: TLSSocket) =>
    socket.end('hello'),
  )
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const said = async (ca: string) => {
    const socket = connect({ host: '127.0.0.1', port, servername: 'a.e2b.test', ca })
    return String((await once(socket, 'data'))[0])
  }
  try {
    assert.equal(await said(authority.certificate), 'hello')
    await assert.rejects(said(makeAuthority('ours').certificate))
  } finally {
    server.close()
  }
})

it('a certificate holds for the days asked, also past 2050, from an hour before', () => {
  const clock = new ManualClock(Date.UTC(2026, 0, 1))
  const authority = makeAuthority('long', 30 * 365, clock)
  const leaf = new X509Certificate(issueCertificate(authority, { names, days: 10 }, clock).certificate)
  assert.equal(leaf.validFromDate.getTime(), Date.UTC(2025, 11, 31, 23))
  assert.equal(leaf.validToDate.getTime(), Date.UTC(2026, 0, 11))
  assert.equal(new X509Certificate(authority.certificate).validToDate.getUTCFullYear(), 2055)
})

it('no two certificates share a serial number, and invalid names get none', () => {
  const authority = makeAuthority('serials')
  const serials = Array.from({ length: 50 }, () => {
    return new X509Certificate(issueCertificate(authority, { names, days: 1 }).certificate).serialNumber
  })
  assert.equal(new Set(serials).size, 50)
  for (const name of [
    '',
    'a b',
    'a\0.test',
    '*',
    'a.*.test',
    'x'.repeat(64),
    'ümlaut.test',
    'a..b',
    '-a.test',
  ]) {
    assert.throws(() => issueCertificate(authority, { names: [name], days: 1 }), /no host name/, name)
  }
  assert.throws(
    () => issueCertificate(authority, { names: [], addresses: ['fe80::1%eth0'], days: 1 }),
    /no IP/,
  )
  assert.throws(() => issueCertificate(authority, { names: [], days: 1 }), /needs a name/)
})
