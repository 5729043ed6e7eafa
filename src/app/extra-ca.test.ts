import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { issueCertificate, makeAuthority } from '../lib/certificates.ts'
import { readExtraCA } from './extra-ca.ts'

suite('WARREN_EXTRA_CA', () => {
  let folder = ''
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'warren-extra-ca-'))
  })
  after(() => rmSync(folder, { recursive: true }))
  const [first, second] = [makeAuthority('first'), makeAuthority('second')]
  const fileWith = (text: string) => {
    const path = join(folder, 'authorities.pem')
    writeFileSync(path, text)
    return path
  }

  test('returns the certificates of the file, and no text between them', () => {
    const path = fileWith(`# ours\n${first.certificate}\nsome words\n${second.certificate}`)
    assert.equal(readExtraCA(path), first.certificate + second.certificate)
  })

  test('is rejected with the reason if it cannot be used', () => {
    assert.throws(() => readExtraCA(join(folder, 'missing')), /WARREN_EXTRA_CA is .*cannot be read: ENOENT/)
    assert.throws(() => readExtraCA(folder), /cannot be read: EISDIR/)
    assert.throws(() => readExtraCA(fileWith('words')), /holds no certificate/)
    const leaf = issueCertificate(first, { names: ['x.example'], days: 1 }).certificate
    assert.throws(
      () => readExtraCA(fileWith(first.certificate + leaf)),
      /certificate number 2 is not that of an authority/,
    )
    const broken = first.certificate.replace(/\n.{20}/, '\n')
    assert.throws(() => readExtraCA(fileWith(broken)), /certificate number 1 cannot be read/)
  })
})
