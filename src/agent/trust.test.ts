import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, suite, test } from 'node:test'
import { issueCertificate, makeAuthority } from '../lib/certificates.ts'
import { subjectHash, trustAuthority } from './trust.ts'

const authority = makeAuthority('Warren  Egress Äuthority')
const count = (text: string, part: string) => text.split(part).length - 1

suite('trust', () => {
  let root = ''
  const read = (path: string) => readFileSync(join(root, path), 'utf8')
  const bundle = 'etc/ssl/certs/ca-certificates.crt'
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'warren-trust-'))
    mkdirSync(join(root, 'etc/ssl/certs'), { recursive: true })
  })
  afterEach(() => rmSync(root, { recursive: true }))

  test('adds the authority to what the system trusts, once, and replaces an earlier one', () => {
    const others = makeAuthority('another').certificate
    writeFileSync(join(root, bundle), others.trimEnd())
    const variables = trustAuthority(authority.certificate, root)
    trustAuthority(authority.certificate, root)
    assert.equal(count(read(bundle), authority.certificate), 1)
    assert.ok(read(bundle).startsWith(others))
    assert.equal(read('usr/local/share/ca-certificates/warren-egress.crt'), authority.certificate)
    assert.deepEqual(variables, {
      NODE_EXTRA_CA_CERTS: '/usr/local/share/ca-certificates/warren-egress.crt',
      SSL_CERT_FILE: `/${bundle}`,
      REQUESTS_CA_BUNDLE: `/${bundle}`,
    })
    const next = makeAuthority('next').certificate
    trustAuthority(next, root)
    assert.equal(count(read(bundle), authority.certificate), 0)
    assert.equal(count(read(bundle), next), 1)
    assert.equal(count(read(bundle), 'BEGIN CERTIFICATE'), 2)
  })

  test('follows links to the real file, and works without any', () => {
    mkdirSync(join(root, 'etc/pki/tls/certs'), { recursive: true })
    writeFileSync(join(root, 'etc/pki/real.pem'), '')
    symlinkSync('../../real.pem', join(root, 'etc/pki/tls/certs/ca-bundle.crt'))
    trustAuthority(authority.certificate, root)
    assert.equal(count(read('etc/pki/real.pem'), authority.certificate), 1)
    rmSync(join(root, 'etc'), { recursive: true })
    assert.deepEqual(Object.keys(trustAuthority(authority.certificate, root)), ['NODE_EXTRA_CA_CERTS'])
    assert.equal(existsSync(join(root, 'etc')), false)
  })

  test('reads nothing that is no file', { timeout: 5000 }, () => {
    symlinkSync('/dev/zero', join(root, bundle))
    assert.equal(trustAuthority(authority.certificate, root).SSL_CERT_FILE, undefined)
  })

  test('takes no other certificate, and nothing else', () => {
    const leaf = issueCertificate(authority, { names: ['x.example'], days: 1 })
    for (const text of ['', 'nonsense', leaf.certificate, authority.key]) {
      assert.throws(() => trustAuthority(text, root), /caBundle must be the certificate of an authority/)
    }
  })

  test('is found by OpenSSL under its hash', (t) => {
    trustAuthority(authority.certificate, root)
    const leaf = join(root, 'leaf.pem')
    writeFileSync(leaf, issueCertificate(authority, { names: ['x.example'], days: 1 }).certificate)
    const folder = join(root, 'etc/ssl/certs')
    assert.ok(existsSync(join(folder, `${subjectHash(new X509Certificate(authority.certificate))}.0`)))
    const { error, stdout } = spawnSync('openssl', ['verify', '-no-CAfile', '-CApath', folder, leaf])
    if (error) return t.skip('there is no openssl here')
    assert.equal(String(stdout), `${leaf}: OK\n`)
  })
})
