import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, suite, test } from 'node:test'
import { rootCertificates } from 'node:tls'
import { issueCertificate, makeAuthority } from '../lib/certificates.ts'
import { subjectHash, trustAuthorities } from './trust.ts'

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

  test("adds the authority to the system's bundle once, and replaces an earlier one", () => {
    const others = makeAuthority('another').certificate
    writeFileSync(join(root, bundle), others.trimEnd())
    const variables = trustAuthorities(authority.certificate, root)
    trustAuthorities(authority.certificate, root)
    assert.equal(count(read(bundle), authority.certificate), 1)
    assert.ok(read(bundle).startsWith(others))
    assert.equal(read('usr/local/share/ca-certificates/warren-1.crt'), authority.certificate)
    const { NODE_EXTRA_CA_CERTS, JAVA_TOOL_OPTIONS, ...rest } = variables
    assert.equal(NODE_EXTRA_CA_CERTS, '/usr/local/share/ca-certificates/warren.pem')
    assert.equal(read(NODE_EXTRA_CA_CERTS), authority.certificate)
    assert.equal(JAVA_TOOL_OPTIONS, '-Djavax.net.ssl.trustStore=/usr/local/share/ca-certificates/warren.jks')
    const names = ['SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'PIP_CERT', 'CURL_CA_BUNDLE']
    for (const name of [...names, 'CARGO_HTTP_CAINFO']) {
      assert.equal(rest[name], `/${bundle}`, name)
    }
    const next = makeAuthority('next').certificate
    trustAuthorities(next, root)
    assert.equal(count(read(bundle), authority.certificate), 0)
    assert.equal(count(read(bundle), next), 1)
    assert.equal(count(read(bundle), 'BEGIN CERTIFICATE'), 2)
  })

  test('follows links to the real file, and works without any bundle', () => {
    mkdirSync(join(root, 'etc/pki/tls/certs'), { recursive: true })
    writeFileSync(join(root, 'etc/pki/real.pem'), '')
    symlinkSync('../../real.pem', join(root, 'etc/pki/tls/certs/ca-bundle.crt'))
    trustAuthorities(authority.certificate, root)
    assert.equal(count(read('etc/pki/real.pem'), authority.certificate), 1)
  })

  test('makes a bundle with the usual roots if the image has none', () => {
    rmSync(join(root, 'etc'), { recursive: true })
    for (let again = 0; again < 2; again++) {
      const { SSL_CERT_FILE } = trustAuthorities(authority.certificate, root)
      assert.equal(SSL_CERT_FILE, `/${bundle}`)
      assert.equal(count(read(bundle), 'BEGIN CERTIFICATE'), rootCertificates.length + 1)
      assert.equal(count(read(bundle), authority.certificate), 1)
    }
  })

  test('writes each of several authorities to a file of its own for the tools of the image', () => {
    const all = ['one', 'two', 'three'].map((name) => makeAuthority(name).certificate)
    mkdirSync(join(root, 'etc/pki/ca-trust/source/anchors'), { recursive: true })
    trustAuthorities(all.join(''), root)
    const own = (name: string) => join('usr/local/share/ca-certificates', name)
    for (const [index, one] of all.entries()) {
      assert.equal(read(own(`warren-${index + 1}.crt`)), one)
      assert.equal(count(read(bundle), one), 1)
    }
    assert.equal(read('etc/pki/ca-trust/source/anchors/warren.pem'), all.join(''))
    trustAuthorities(all[2]!, root)
    assert.equal(read(own('warren-1.crt')), all[2])
    assert.equal(existsSync(join(root, own('warren-2.crt'))), false)
  })

  test('leaves an authority of the image with the same hash alone', () => {
    const certificate = new X509Certificate(authority.certificate)
    const hashed = join('etc/ssl/certs', subjectHash(certificate))
    const other = makeAuthority('another').certificate
    writeFileSync(join(root, `${hashed}.0`), other)
    trustAuthorities(authority.certificate, root)
    trustAuthorities(authority.certificate, root)
    assert.equal(read(`${hashed}.0`), other)
    assert.equal(read(`${hashed}.1`), authority.certificate)
    assert.equal(existsSync(join(root, `${hashed}.2`)), false)
  })

  test('gives Java all authorities that the system trusts', (t) => {
    trustAuthorities(authority.certificate, root)
    const store = join(root, 'usr/local/share/ca-certificates/warren.jks')
    assert.equal(readFileSync(store).readUInt32BE(8), rootCertificates.length + 1)
    const listed = spawnSync('keytool', ['-list', '-keystore', store, '-storepass', 'changeit'])
    if (listed.error) return t.skip('there is no keytool here, so Java itself did not read it')
    assert.match(String(listed.stdout), new RegExp(`contains ${rootCertificates.length + 1} entries`))
  })

  test('reads regular files only', { timeout: 120_000 }, () => {
    symlinkSync('/dev/zero', join(root, bundle))
    assert.equal(trustAuthorities(authority.certificate, root).SSL_CERT_FILE, undefined)
  })

  test('writes through no link and waits for no pipe where it creates a file', () => {
    const beside = join(root, `${bundle}.warren`)
    const target = join(root, 'target')
    writeFileSync(target, 'kept')
    symlinkSync(target, beside)
    trustAuthorities(authority.certificate, root)
    assert.equal(readFileSync(target, 'utf8'), 'kept')
    spawnSync('mkfifo', [beside])
    trustAuthorities(makeAuthority('next').certificate, root)
    assert.equal(existsSync(beside), false)
  })

  test('rejects other certificates and any other text', () => {
    const leaf = issueCertificate(authority, { names: ['x.example'], days: 1 })
    for (const text of ['', 'nonsense', leaf.certificate, authority.key]) {
      assert.throws(() => trustAuthorities(text, root), /caBundle must be the certificates of authorities/)
    }
  })

  test('has the hash of OpenSSL, for all types and spaces of a subject', (t) => {
    const subjects: [mask: string, subject: string][] = [
      ['UTF8', '/C=DE/O=Föö  Bar/CN= A\tb\u00a0\u00a0c '],
      ['T61', '/O=Foo Bär/CN=ABC'],
      ['BMP', '/O=Foo Bär/CN=АВС'],
      ['IA5', '/DC=Example/CN=x/emailAddress=Me@Example.Org'],
      ['UTF8', '/O=Foo/CN=  zzz  +OU=Aaaaa+UID=X/serialNumber=AbC 12'],
    ]
    const masks: Record<string, string> = { UTF8: '0x2000', T61: '0x0004', BMP: '0x0800', IA5: '0x0010' }
    const certificateOf = (mask: string, subject: string) => {
      const config = join(root, 'openssl.cnf')
      writeFileSync(config, `[req]\nstring_mask=MASK:${masks[mask]}\ndistinguished_name=dn\n[dn]\n`)
      const key = [
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:P-256',
        '-nodes',
        '-keyout',
        join(root, 'key'),
      ]
      const made = ['req', '-x509', '-utf8', '-multivalue-rdn', '-config', config, ...key, '-subj', subject]
      return spawnSync('openssl', made, { encoding: 'utf8' })
    }
    for (const [mask, subject] of subjects) {
      const { error, stdout, stderr } = certificateOf(mask, subject)
      if (error) return t.skip('there is no openssl here')
      const hash = spawnSync('openssl', ['x509', '-noout', '-subject_hash'], {
        input: stdout,
        encoding: 'utf8',
      })
      assert.equal(subjectHash(new X509Certificate(stdout)), hash.stdout.trim(), `${subject} ${stderr}`)
    }
    for (const pem of rootCertificates.slice(0, 20)) {
      const hash = spawnSync('openssl', ['x509', '-noout', '-subject_hash'], { input: pem, encoding: 'utf8' })
      assert.equal(subjectHash(new X509Certificate(pem)), hash.stdout.trim())
    }
  })

  test('is found by OpenSSL under its hash', (t) => {
    trustAuthorities(authority.certificate, root)
    const leaf = join(root, 'leaf.pem')
    writeFileSync(leaf, issueCertificate(authority, { names: ['x.example'], days: 1 }).certificate)
    const folder = join(root, 'etc/ssl/certs')
    assert.ok(existsSync(join(folder, `${subjectHash(new X509Certificate(authority.certificate))}.0`)))
    const { error, stdout } = spawnSync('openssl', ['verify', '-no-CAfile', '-CApath', folder, leaf])
    if (error) return t.skip('there is no openssl here')
    assert.equal(String(stdout), `${leaf}: OK\n`)
  })
})
