import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { rootCertificates } from 'node:tls'
import { issueCertificate, makeAuthority } from '../../lib/certificates.ts'
import { ManualClock } from '../../lib/clock.ts'
import { authorityNames, hostAuthorities } from './host-authorities.ts'

suite('the authorities that a machine trusts beyond the usual ones', () => {
  let folder = ''
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'warren-host-authorities-'))
  })
  after(() => rmSync(folder, { recursive: true }))
  const company = makeAuthority('Company inspection')
  const packaged = makeAuthority('Packaged by the distribution')
  const leaf = issueCertificate(company, { names: ['x.example'], days: 1 }).certificate
  const write = (name: string, ...texts: string[]) => {
    writeFileSync(join(folder, name), texts.join('\n'))
    return join(folder, name)
  }

  test('are found once, among public ones, servers, broken ones and missing files', () => {
    write('packaged.crt', packaged.certificate)
    const broken = company.certificate.replace(/\n.{20}/, '\n')
    const bundle = write(
      'bundle',
      ...rootCertificates.slice(0, 3),
      packaged.certificate,
      company.certificate,
      leaf,
    )
    const files = [bundle, write('again', company.certificate, broken), join(folder, 'missing')]
    const found = hostAuthorities({ files, usualFolder: folder })
    assert.deepEqual(authorityNames(found), ['Company inspection'])
    assert.equal(found.join(''), company.certificate)
  })

  test('are not offered when their time is over, or when there are none', () => {
    const files = [write('bundle', company.certificate)]
    const clock = new ManualClock(Date.now() + 100 * 365 * 86_400_000)
    assert.deepEqual(hostAuthorities({ files, usualFolder: folder, clock }), [])
    assert.deepEqual(
      hostAuthorities({ files: [write('public', ...rootCertificates)], usualFolder: folder }),
      [],
    )
  })
})
