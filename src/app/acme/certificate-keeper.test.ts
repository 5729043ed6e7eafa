import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import { issueCertificate, makeAuthority } from '../../lib/certificates.ts'
import { ManualClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import { vault } from '../../store/suite/rows.ts'
import { readPair, readTrouble } from '../trust/acme-files.ts'
import { type AcmePlan, type PemPair, temporaryIssuer } from '../trust/acme-plan.ts'
import { AcmeRecords } from './acme-records.ts'
import { CertificateKeeper } from './certificate-keeper.ts'
import type { OrderParts } from './order-certificate.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

const account = { key: 'an account key', url: 'https://ca.example/account/1' }
const plan: AcmePlan = {
  directory: 'https://ca.example/directory',
  email: null,
  names: ['box.example', '*.box.example'],
  challenge: 'dns-01',
  dnsProgram: ['/set-record'],
}

/** A database and an authority. Each `warren` is a machine with a data folder of its own. */
function aCluster() {
  const clock = new ManualClock(Date.parse('2026-01-01T00:00:00Z'))
  const values = new Map<string, string>()
  const leases = new Map<string, string>()
  const authority = makeAuthority('the world', 3650, clock)
  const orders: OrderParts[] = []
  let fault: string | undefined
  const cluster = {
    clock,
    values,
    leases,
    orders,
    fail: (message: string | undefined) => {
      fault = message
    },
    issue(names: readonly string[] = plan.names): PemPair {
      const { certificate, key } = issueCertificate(authority, { names, days: 90 }, clock)
      return { cert: certificate, key }
    },
    async order(parts: OrderParts): Promise<PemPair> {
      orders.push(parts)
      if (fault !== undefined) throw new Error(fault)
      if (parts.account === undefined) await parts.saveAccount(account)
      await parts.tokens.add('a-token-of-the-order', 'answer')
      await parts.tokens.remove('a-token-of-the-order')
      return cluster.issue(parts.plan.names)
    },
  }
  return cluster
}

function warren(cluster: ReturnType<typeof aCluster>, name = 'one', changes: Partial<AcmePlan> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-acme-'))
  folders.push(folder)
  const files = { cert: join(folder, 'acme/cert.pem'), key: join(folder, 'acme/key.pem') }
  const { clock, values, leases } = cluster
  const records = new AcmeRecords(
    {
      read: async (key) => values.get(key),
      write: async (key, value) => void values.set(key, value),
      remove: async (key) => void values.delete(key),
    },
    vault,
  )
  const keeper = new CertificateKeeper({
    plan: { ...plan, ...changes },
    files,
    records,
    leases: {
      acquire: async (lease) => (leases.get(lease) ?? name) === name && !!leases.set(lease, name),
      release: async (lease) => void leases.delete(lease),
    },
    order: cluster.order,
    clock,
    log: silentLog,
  })
  const issuer = async () => new X509Certificate((await readPair(files))!.cert).issuer
  return { keeper, files, records, issuer }
}

describe('the keeper of a certificate', () => {
  it('makes a temporary one at once, and replaces it with the ordered one', async () => {
    const cluster = aCluster()
    const { keeper, files, issuer } = warren(cluster)
    await keeper.prepare()
    assert.equal(await issuer(), `CN=${temporaryIssuer}`)
    await keeper.check()
    assert.equal(await issuer(), 'CN=the world')
    const { cert, key } = (await readPair(files))!
    assert.ok(new X509Certificate(cert).checkHost('8000-x.box.example'))
    assert.ok(!JSON.stringify([...cluster.values]).includes(key.split('\n')[1]!), 'the key is not sealed')
    await keeper.check()
    assert.equal(cluster.orders.length, 1)
  })

  it('renews when a third of the time is left, with the same account, and serves on until then', async () => {
    const cluster = aCluster()
    const { keeper, files } = warren(cluster)
    await keeper.prepare()
    await keeper.check()
    const first = await readPair(files)
    cluster.clock.advance(59 * dayMs)
    await keeper.check()
    assert.deepEqual(await readPair(files), first)
    cluster.clock.advance(2 * dayMs)
    await keeper.check()
    assert.notDeepEqual(await readPair(files), first)
    assert.deepEqual(
      cluster.orders.map((order) => order.account),
      [undefined, account],
    )
  })

  it('tries again after growing delays, also after a restart, and tells the doctor', async () => {
    const cluster = aCluster()
    const { keeper, files } = warren(cluster)
    await keeper.prepare()
    cluster.fail('no such record')
    const tries: number[] = []
    const began = cluster.clock.now()
    for (let minute = 0; minute <= 24 * 60; minute++) {
      const before = cluster.orders.length
      // A Warren that restarts again and again is no reason to ask more often.
      await (minute % 2 ? keeper : warren(cluster).keeper).check()
      if (cluster.orders.length > before) tries.push((cluster.clock.now() - began) / 60_000)
      cluster.clock.advance(60_000)
    }
    assert.deepEqual(tries, [0, 5, 15, 35, 75, 155, 315, 635, 1275])
    await keeper.check()
    const trouble = await readTrouble(files.cert)
    assert.deepEqual([trouble?.message, trouble?.failures], ['no such record', 9])
    cluster.fail(undefined)
    cluster.clock.advance(12 * hourMs)
    await keeper.check()
    assert.equal(await readTrouble(files.cert), undefined)
    assert.equal((await readPair(files))?.cert.includes('BEGIN'), true)
  })

  it('tries other settings at once, although the earlier ones failed', async () => {
    const cluster = aCluster()
    const { keeper } = warren(cluster)
    cluster.fail('wrong')
    await keeper.check()
    cluster.fail(undefined)
    const other = warren(cluster, 'one', { directory: 'https://staging.example/directory' })
    await other.keeper.check()
    assert.equal(await other.issuer(), 'CN=the world')
  })

  it('takes what another Warren of the cluster has ordered, and never orders beside it', async () => {
    const cluster = aCluster()
    const [one, two] = [warren(cluster, 'one'), warren(cluster, 'two')]
    await Promise.all([one.keeper.prepare(), two.keeper.prepare()])
    await Promise.all([one.keeper.check(), two.keeper.check()])
    assert.equal(cluster.orders.length, 1)
    await Promise.all([one.keeper.check(), two.keeper.check()])
    assert.deepEqual(await readPair(two.files), await readPair(one.files))
    assert.equal(cluster.orders.length, 1)
    const third = warren(cluster, 'three')
    await third.keeper.prepare()
    assert.deepEqual(await readPair(third.files), await readPair(one.files))
  })

  it('makes another account if the authority does not know its own any more', async () => {
    const cluster = aCluster()
    const { keeper } = warren(cluster)
    await keeper.check()
    cluster.clock.advance(61 * dayMs)
    for (const [fault, after] of [
      ['too many new orders for this account', account],
      ['Account is not valid, has status "deactivated"', undefined],
    ] as const) {
      cluster.fail(fault)
      await keeper.check()
      cluster.fail('something else')
      cluster.clock.advance(hourMs)
      await keeper.check()
      cluster.clock.advance(hourMs)
      assert.deepEqual(cluster.orders.at(-1)!.account, after, fault)
    }
  })

  it('gives back the right to order when the database fails', async () => {
    const cluster = aCluster()
    const { keeper, records } = warren(cluster)
    records.writeFailure = () => Promise.reject(new Error('the database is gone'))
    cluster.fail('no')
    await assert.rejects(keeper.check(), /the database is gone/)
    assert.equal(cluster.leases.size, 0)
  })
})

describe('the answers to challenges', () => {
  it('are those of an order under way, for an hour', async () => {
    const cluster = aCluster()
    const { records } = warren(cluster)
    const token = 'abcdefghijklmnop-_0'
    await records.writeAnswer(token, 'the answer', cluster.clock.now())
    assert.equal(await records.readAnswer(token, cluster.clock.now()), 'the answer')
    assert.equal(await records.readAnswer('abcdefghijklmnop-_1', cluster.clock.now()), undefined)
    assert.equal(await records.readAnswer('../../certificate', cluster.clock.now()), undefined)
    assert.equal(await records.readAnswer(token, cluster.clock.now() + 2 * hourMs), undefined)
    await records.removeAnswer(token)
    assert.equal(await records.readAnswer(token, cluster.clock.now()), undefined)
  })
})
