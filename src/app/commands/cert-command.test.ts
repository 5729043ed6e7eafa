import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, it } from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { certCommand } from './cert-command.ts'

let dataDir: string
const clock = new ManualClock()
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'cert-command-'))
})
afterEach(() => rm(dataDir, { recursive: true }))

const run = (args: string[], domain: string | null = 'e2b.test:8443') =>
  certCommand(args, { dataDir, domain }, clock)
const certificateAt = async (path: string) => new X509Certificate(await readFile(path))

it('the certificate is for the domain, all names below it, and this machine', async () => {
  const { settings, trust } = JSON.parse(await run(['--json']))
  assert.deepEqual(settings, {
    WARREN_DOMAIN: 'e2b.test:8443',
    WARREN_TLS_CERT: join(dataDir, 'tls/cert.pem'),
    WARREN_TLS_KEY: join(dataDir, 'tls/key.pem'),
  })
  const certificate = await certificateAt(settings.WARREN_TLS_CERT)
  for (const name of ['e2b.test', 'api.e2b.test', 'localhost']) assert.ok(certificate.checkHost(name), name)
  assert.ok(certificate.checkIP('127.0.0.1'))
  assert.equal(certificate.checkHost('e2b.other'), undefined)
  assert.ok(certificate.verify((await certificateAt(trust.SSL_CERT_FILE)).publicKey))
  for (const key of ['key.pem', 'ca-key.pem']) {
    assert.equal((await stat(join(dataDir, 'tls', key))).mode & 0o777, 0o600)
  }
})

it('a second certificate is signed by the same authority, unless that is about to expire', async () => {
  const out = join(dataDir, 'elsewhere')
  const printed = await run(['--out', out])
  assert.match(printed, new RegExp(`NODE_EXTRA_CA_CERTS=${out}/ca.pem`))
  const authority = await readFile(join(out, 'ca.pem'), 'utf8')
  const first = await readFile(join(out, 'cert.pem'), 'utf8')
  await run(['--out', out, '--domain', 'other.test'])
  assert.equal(await readFile(join(out, 'ca.pem'), 'utf8'), authority)
  assert.notEqual(await readFile(join(out, 'cert.pem'), 'utf8'), first)
  clock.advance(3300 * 24 * 3_600_000)
  await run(['--out', out])
  assert.notEqual(await readFile(join(out, 'ca.pem'), 'utf8'), authority)
})

it('a certificate that cannot be made is rejected with the reason', async () => {
  await assert.rejects(run([], null), /set WARREN_DOMAIN, or give --domain/)
  await assert.rejects(run(['--domain', 'no_dot']), /must be a host name with at least one dot/)
  await assert.rejects(run(['word']), /Unknown argument 'word'/)
  await writeFile(join(dataDir, 'file'), '')
  await assert.rejects(run(['--out', join(dataDir, 'file/below')]), /Cannot write to .*file\/below/)
  await run([])
  await writeFile(join(dataDir, 'tls/ca.pem'), 'rubbish')
  await assert.rejects(run([]), /is not a certificate. Move it and its key away/)
})
