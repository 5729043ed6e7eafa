import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { useAgent } from './agent-suite.ts'
import { cpuReading, memoryUse, processTicks } from './metrics.ts'

describe('GET /metrics', () => {
  const agent = useAgent()

  it('needs the token', async () => {
    assert.equal((await agent.fetch('GET', '/metrics', { 'x-access-token': 'wrong' })).status, 401)
  })

  it('returns limits and use in whole bytes', async () => {
    const { status, json } = await agent.fetch('GET', '/metrics')
    assert.equal(status, 200)
    const names = [
      ...['cpu_count', 'cpu_used_pct', 'disk_total', 'disk_used', 'mem_cache', 'mem_total'],
      ...['mem_total_mib', 'mem_used', 'mem_used_mib', 'ts'],
    ]
    assert.deepEqual(Object.keys(json).sort(), names)
    const value = (name: string) => json[name] as number
    for (const [used, total] of [
      ['mem_used', 'mem_total'],
      ['disk_used', 'disk_total'],
    ] as const) {
      assert.ok(Number.isInteger(value(used)) && value(used) > 0 && value(used) <= value(total), used)
    }
    assert.equal(value('mem_total_mib'), Math.floor(value('mem_total') / 2 ** 20))
  })

  it('counts shared memory once, and files of the machine as cache', () => {
    const kB = { MemTotal: 1000, Cached: 300, AnonPages: 400, Shmem: 100 }
    const text = Object.entries(kB).map(([name, value]) => `${name}:   ${value} kB\n`)
    assert.deepEqual(memoryUse(text.join('')), { total: 1024e3, used: 4096e2, cache: 2048e2 })
  })

  it('never reports more memory than exists', () => {
    const text = 'MemTotal: 100 kB\nCached: 90 kB\nAnonPages: 150 kB\n'
    assert.deepEqual(memoryUse(text), { total: 102_400, used: 102_400, cache: 0 })
  })

  it('adds the time of a process and of its children that ended, whatever its name', () => {
    assert.equal(processTicks('7 (a) b) c) S 1 7 7 0 -1 0 0 0 0 0 100 20 3 4 20 0 1 0 0'), 127)
    assert.equal(processTicks(''), 0)
  })

  it('reports CPU use since the previous call, over all CPUs', () => {
    const first = cpuReading({ uptimeMs: 0, usedMs: 0, usedPct: 0 }, 10_000, 2000, 2)
    assert.equal(first.usedPct, 10)
    assert.equal(cpuReading(first, 11_000, 3000, 2).usedPct, 50)
    assert.equal(cpuReading(first, 10_100, 2100, 2), first)
    assert.equal(cpuReading(first, 11_000, 9000, 2).usedPct, 100)
    // A process that ended unnoticed took its time with it.
    assert.equal(cpuReading(first, 11_000, 1000, 2).usedPct, 0)
  })
})
