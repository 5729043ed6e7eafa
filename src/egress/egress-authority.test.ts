import assert from 'node:assert/strict'
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { ManualClock } from '../lib/clock.ts'
import { createEgressAuthority } from './egress-authority.ts'

describe('the authority of the gate', async () => {
  const base = await mkdtemp(join(tmpdir(), 'warren-authority-'))
  after(() => rm(base, { recursive: true }))
  const dayMs = 24 * 60 * 60 * 1000

  it('is made at first need, readable by its owner only, and stays the same', async () => {
    const folder = join(base, 'kept')
    const authority = createEgressAuthority(folder, new ManualClock(Date.now()))
    await assert.rejects(stat(folder), { code: 'ENOENT' })
    const [one, two] = await Promise.all([authority.certificate(), authority.certificate()])
    assert.equal(one, two)
    assert.match(one, /^-----BEGIN CERTIFICATE-----\n[\w+/=\n]+-----END CERTIFICATE-----\n$/)
    assert.doesNotMatch(one, /PRIVATE/)
    assert.deepEqual(await readdir(folder), ['authority.pem'])
    assert.equal((await stat(join(folder, 'authority.pem'))).mode & 0o777, 0o600)
    assert.equal(await createEgressAuthority(folder, new ManualClock(Date.now())).certificate(), one)
  })

  it('is replaced before it expires', async () => {
    const folder = join(base, 'old')
    const clock = new ManualClock(Date.now())
    const first = await createEgressAuthority(folder, clock).certificate()
    clock.advance(3600 * dayMs)
    assert.equal(await createEgressAuthority(folder, clock).certificate(), first)
    clock.advance(30 * dayMs)
    assert.notEqual(await createEgressAuthority(folder, clock).certificate(), first)
  })

  it('is not replaced if it cannot be read', async () => {
    const folder = join(base, 'broken')
    const authority = createEgressAuthority(folder, new ManualClock(Date.now()))
    await authority.certificate()
    const other = join(base, 'other')
    await createEgressAuthority(other, new ManualClock(Date.now())).certificate()
    const [mine, theirs] = await Promise.all(
      [folder, other].map((parent) => readFile(join(parent, 'authority.pem'), 'utf8')),
    )
    const mixed = mine!.split('-----BEGIN CERT')[0] + theirs!.slice(theirs!.indexOf('-----BEGIN CERT'))
    await chmod(join(folder, 'authority.pem'), 0o600)
    for (const text of [mixed, 'nonsense', '']) {
      await writeFile(join(folder, 'authority.pem'), text)
      await assert.rejects(createEgressAuthority(folder, new ManualClock(Date.now())).certificate())
      assert.equal(await readFile(join(folder, 'authority.pem'), 'utf8'), text)
    }
  })

  it('issues another certificate for a host only if the last one is old', async () => {
    const clock = new ManualClock(Date.now())
    const authority = createEgressAuthority(join(base, 'leaves'), clock)
    const first = await authority.contextFor('a.example')
    assert.equal(await authority.contextFor('a.example'), first)
    clock.advance(16 * dayMs)
    assert.notEqual(await authority.contextFor('a.example'), first)
  })
})
