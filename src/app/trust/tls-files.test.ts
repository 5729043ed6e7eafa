import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, it } from 'node:test'
import { connect } from 'node:tls'
import { type Certificate, issueCertificate, makeAuthority } from '../../lib/certificates.ts'
import { ManualClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import { createListener, type Listener } from '../doors/http-server.ts'
import { certificateProblem, readTlsFiles, TlsWatch } from './tls-files.ts'

const authority = makeAuthority('tls files test')
const certificateFor = (name: string, clock?: ManualClock) =>
  issueCertificate(authority, { names: [name], days: 30 }, clock)

let folder: string
let listener: Listener
let watch: TlsWatch
let logged: string[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tls-files-'))
  await write('first', certificateFor('first.test'))
  await symlink('first', join(folder, 'live'))
  const files = { cert: join(folder, 'live/cert.pem'), key: join(folder, 'live/key.pem') }
  listener = createListener({}, readTlsFiles(files))
  await listener.listen('127.0.0.1', 0)
  logged = []
  const log = { ...silentLog, error: (_: object, text: string) => logged.push(text) }
  watch = new TlsWatch({ files, use: listener.useCertificate, log })
  await watch.check()
})
afterEach(async () => {
  await listener.close({ graceMs: 0 })
  await rm(folder, { recursive: true })
})

async function write(name: string, { certificate, key }: Certificate): Promise<void> {
  await mkdir(join(folder, name), { recursive: true })
  await writeFile(join(folder, name, 'cert.pem'), certificate)
  await writeFile(join(folder, name, 'key.pem'), key)
}

async function shown(): Promise<string | undefined> {
  const { port } = listener.server.address() as AddressInfo
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const { raw } = socket.getPeerCertificate()
  socket.destroy()
  return new X509Certificate(raw).subjectAltName
}

it('a swapped link above the files brings the new certificate, and open connections stay', async () => {
  assert.equal(await shown(), 'DNS:first.test')
  const { port } = listener.server.address() as AddressInfo
  const open = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  await once(open, 'secureConnect')
  await write('second', certificateFor('second.test'))
  await symlink('second', join(folder, 'next'))
  await rename(join(folder, 'next'), join(folder, 'live'))
  assert.equal(await shown(), 'DNS:first.test')
  await watch.check()
  assert.equal(await shown(), 'DNS:second.test')
  assert.deepEqual(logged, [])
  assert.equal(open.destroyed, false)
  open.destroy()
})

it('files written over in place bring the new certificate', async () => {
  await write('first', certificateFor('again.test'))
  await watch.check()
  assert.equal(await shown(), 'DNS:again.test')
})

it('an unusable certificate is reported once and not used, and the next valid one is', async () => {
  const expired = certificateFor('expired.test', new ManualClock(1_600_000_000_000))
  const other = certificateFor('other.test')
  const bad: [Certificate, RegExp][] = [
    [{ ...other, certificate: 'rubbish' }, /PEM|no start line/i],
    [{ ...other, key: certificateFor('x.test').key }, /mismatch/],
    [expired, /it ended on 2020/],
  ]
  for (const [pair, words] of bad) {
    await write('first', pair)
    await watch.check()
    await watch.check()
    assert.equal(await shown(), 'DNS:first.test')
    assert.equal(logged.length, 1, logged.join())
    assert.match(logged[0]!, /cannot be used, the one before stays.*Check WARREN_TLS_CERT/)
    assert.match(logged.pop()!, words)
  }
  await rm(join(folder, 'first/key.pem'))
  await watch.check()
  assert.match(logged.pop()!, /ENOENT/)
  await write('first', other)
  await watch.check()
  assert.equal(await shown(), 'DNS:other.test')
})

it('a start with unusable files names the settings to check', () => {
  assert.throws(() => readTlsFiles({ cert: '/nowhere', key: '/nowhere' }), /ENOENT.*Check WARREN_TLS_CERT/)
})

it('a certificate that clients will reject is reported at the start', () => {
  const cert = (names: string[], clock?: ManualClock) =>
    Buffer.from(issueCertificate(authority, { names, days: 30 }, clock).certificate)
  const good = ['warren.test', '*.warren.test']
  const now = Date.now()
  assert.equal(certificateProblem(cert(good), 'warren.test:8443', now), undefined)
  assert.match(certificateProblem(cert(['warren.test']), 'warren.test', now)!, /not for \*\.warren\.test/)
  const old = cert(good, new ManualClock(1_600_000_000_000))
  assert.match(certificateProblem(old, 'warren.test', now)!, /ended on 2020/)
})
