import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ManualClock } from '../lib/clock.ts'
import { startDns, type TestDns } from './dns-fixture.ts'
import { createResolve } from './resolve.ts'

describe('DNS look-ups', { timeout: 300_000 }, () => {
  const address = `127.${process.pid % 200}.${(process.pid >> 8) % 200}.54`
  const withDns = async (work: (dns: TestDns) => Promise<void>) => {
    const dns = await startDns(address)
    await work(dns).finally(() => dns.close())
  }

  it('are made once while an answer is valid, also for requests at the same time, and for a minute at most', async () => {
    await withDns(async (dns) => {
      const clock = new ManualClock()
      const resolve = createResolve(clock)
      const ask = () => resolve('a.example', [dns.server])
      dns.zone.set('a.example', ['192.0.2.1'])
      dns.ttlSeconds = 30
      assert.deepEqual(await Promise.all([ask(), ask()]), [['192.0.2.1'], ['192.0.2.1']])
      assert.equal(dns.asked.length, 1)
      dns.zone.set('a.example', ['192.0.2.2'])
      clock.advance(29_000)
      assert.deepEqual(await ask(), ['192.0.2.1'])
      clock.advance(2000)
      dns.ttlSeconds = 250
      assert.deepEqual(await ask(), ['192.0.2.2'])
      clock.advance(61_000)
      await ask()
      assert.equal(dns.asked.length, 3)
    })
  })

  it('are made again after a failure, and separately for each set of servers', async () => {
    await withDns(async (dns) => {
      const resolve = createResolve(new ManualClock())
      await assert.rejects(resolve('b.example', [dns.server]), { code: 'ENOTFOUND' })
      dns.zone.set('b.example', ['192.0.2.1'])
      dns.ttlSeconds = 60
      assert.deepEqual(await resolve('b.example', [dns.server]), ['192.0.2.1'])
      await assert.rejects(resolve('b.example', ['127.0.0.1:1']))
    })
  })
})
