import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openFixture, request } from '../../../../test/support/domain.ts'
import { silentLog } from '../../../lib/log.ts'
import { MetricsSampler, sampleEveryMs } from './metrics.ts'

type Fixture = Awaited<ReturnType<typeof openFixture>>

/** A sampler over a driver whose sandboxes have used so much CPU time as the test says. */
function sampler({ driver, stores, clock }: Fixture, used: { cpuTimeMs: number }) {
  const measuring = Object.create(driver, {
    stats: { value: async () => ({ ...use, cpuTimeMs: used.cpuTimeMs }) },
  })
  const { sandboxes, metrics } = stores
  return new MetricsSampler({ driver: measuring, sandboxes, metrics, clock, log: silentLog })
}

const use = {
  memoryUsedBytes: 1,
  memoryCacheBytes: 2,
  memoryTotalBytes: 3,
  diskUsedBytes: 4,
  diskTotalBytes: 5,
}

async function percentages({ stores }: Fixture, sandboxID: string): Promise<number[]> {
  const points = await stores.metrics.range(sandboxID, 0, Number.MAX_SAFE_INTEGER)
  return points.map(({ cpuUsedPct }) => cpuUsedPct)
}

describe('sampling what sandboxes use', () => {
  it('reports CPU use as the share of all its CPUs since the previous sample', async () => {
    await using fixture = await openFixture()
    const { sandboxID, cpuCount } = await fixture.service.create(fixture.team, request())
    const used = { cpuTimeMs: 0 }
    const sampling = sampler(fixture, used)
    for (const busy of [0.5, 1, 0]) {
      fixture.clock.advance(sampleEveryMs)
      used.cpuTimeMs += busy * sampleEveryMs * cpuCount
      await sampling.sample()
    }
    assert.deepEqual(await percentages(fixture, sandboxID), [50, 100, 0])
  })

  it('does not count CPU time from before the row as a burst', async () => {
    await using fixture = await openFixture()
    const { sandboxID, cpuCount } = await fixture.service.create(fixture.team, request())
    fixture.clock.advance(100)
    await sampler(fixture, { cpuTimeMs: 0.1 * sampleEveryMs * cpuCount }).sample()
    assert.deepEqual(await percentages(fixture, sandboxID), [10])
  })

  it('reports what a sandbox sent since the previous sample, and not what an earlier process has counted', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, stores, clock } = fixture
    await service.create(team, request())
    clock.advance(1000)
    let sentBytes = 100
    const sent: number[] = []
    const measuring = Object.create(driver, {
      stats: { value: async () => ({ ...use, cpuTimeMs: 0, sentBytes }) },
    })
    const { sandboxes, metrics } = stores
    const onSent = (_: object, bytes: number) => sent.push(bytes)
    const sampling = new MetricsSampler({
      driver: measuring,
      sandboxes,
      metrics,
      onSent,
      clock,
      log: silentLog,
    })
    await sampling.sample()
    sentBytes = 130
    await sampling.sample()
    clock.advance(1000)
    await service.create(team, request())
    await sampling.sample()
    assert.deepEqual(
      sent.toSorted((a, b) => a - b),
      [0, 0, 30, 130],
    )
  })

  it('measures nothing once a sandbox has ended', async () => {
    await using fixture = await openFixture()
    const { sandboxID } = await fixture.service.create(fixture.team, request())
    await fixture.service.kill(fixture.team, sandboxID)
    await sampler(fixture, { cpuTimeMs: 0 }).sample()
    assert.deepEqual(await percentages(fixture, sandboxID), [])
  })
})
