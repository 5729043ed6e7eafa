import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { issueCertificate, makeAuthority } from '../../lib/certificates.ts'
import { downloadPinned } from '../setup/download.ts'
import { readExtraCA, trustInThisProcess } from './extra-ca.ts'

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
    const { key } = issueCertificate(first, { names: ['x.example'], days: 1 })
    const path = fileWith(`# ours\n${first.certificate}\nsome words\n${key}\n${second.certificate}`)
    assert.equal(readExtraCA(path), first.certificate + second.certificate)
  })

  test('is trusted by downloads of the set-up, which name the setting without it', async () => {
    const authority = makeAuthority('proxy')
    const { certificate, key } = issueCertificate(authority, { names: ['localhost'], days: 1 })
    const server = https.createServer({ cert: certificate, key }, (_, response) => response.end('content'))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const file = {
      name: 'Go',
      url: `https://localhost:${(server.address() as AddressInfo).port}/`,
      sha256: createHash('sha256').update('content').digest('hex'),
      bytes: 7,
    }
    const target = join(folder, 'downloaded')
    try {
      const untrusted = downloadPinned(file, target, () => {})
      await assert.rejects(
        untrusted,
        /^AppError: Go cannot be downloaded: .*certificate.*WARREN_EXTRA_CA=host/,
      )
      trustInThisProcess(authority.certificate)
      await downloadPinned(file, target, () => {})
      assert.equal(readFileSync(target, 'utf8'), 'content')
    } finally {
      server.close()
    }
  })

  test('is rejected with the reason if it cannot be used', () => {
    assert.throws(() => readExtraCA(join(folder, 'missing')), /WARREN_EXTRA_CA is .*cannot be read: ENOENT/)
    for (const path of [folder, '/dev/null']) assert.throws(() => readExtraCA(path), /which is no file/)
    truncateSync(fileWith(''), 2 ** 42)
    assert.throws(() => readExtraCA(join(folder, 'authorities.pem')), /which is larger than 4 MiB/)
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
