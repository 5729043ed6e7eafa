import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { failsWith, openFixture, request } from '../../../test/support/domain.ts'
import { dayMs, dayOf, sumByDay, type UsedRun, usageOfRun } from './usage.ts'
import { UsageCounter } from './usage-counter.ts'

const hourMs = 3_600_000
const midnight = Date.UTC(2026, 10, 20)

const run = (startedAt: number, endedAt: number): UsedRun => ({
  teamID: 'a team',
  personID: null,
  startedAt,
  endedAt,
  cpuCount: 2,
  memoryMB: 512,
  gpuCount: 1,
})

describe('usage by day', () => {
  it('counts a run on each day that it touched', () => {
    const days = usageOfRun(run(midnight - hourMs, midnight + dayMs + hourMs))
    assert.deepEqual(
      days.map(({ day, runningMs }) => [day, runningMs]),
      [
        ['2026-11-19', hourMs],
        ['2026-11-20', dayMs],
        ['2026-11-21', hourMs],
      ],
    )
    const { cpuMs, memoryMBMs, gpuMs } = days[0]!
    assert.deepEqual([cpuMs, memoryMBMs, gpuMs], [2 * hourMs, 512 * hourMs, hourMs])
  })

  it('counts nothing for a run whose clock went back', () => {
    assert.deepEqual(usageOfRun(run(midnight, midnight - 1)), [])
  })

  it('has one entry for each day, team and person', () => {
    const one = usageOfRun(run(midnight, midnight + 1))
    const ofPerson = usageOfRun({ ...run(midnight, midnight + 1), personID: 'somebody' })
    const sums = sumByDay([...one, ...ofPerson, ...one])
    assert.deepEqual(
      sums.map(({ personID, runningMs }) => [personID, runningMs]),
      [
        [null, 2],
        ['somebody', 1],
      ],
    )
  })
})

describe('the usage of a team', () => {
  it('is exact while sandboxes run, and when they were paused and killed', async () => {
    await using fixture = await openFixture()
    const { service, team, clock, usageCounter } = fixture
    const { sandboxID } = await service.create(team, request({ timeoutMs: hourMs }))
    const runningMs = async () => {
      const days = await usageCounter.read(team.teamID, '2000-01-01', '9999-12-31')
      return days.reduce((sum, day) => sum + day.runningMs, 0)
    }
    clock.advance(5000)
    assert.equal(await runningMs(), 5000)
    await service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false })
    clock.advance(60_000)
    assert.equal(await runningMs(), 5000)
    await usageCounter.count()
    await service.connect(team, sandboxID, { timeoutMs: hourMs, memory: true })
    clock.advance(2000)
    assert.equal(await runningMs(), 7000)
    await service.kill(team, sandboxID)
    await usageCounter.count()
    clock.advance(60_000)
    assert.equal(await runningMs(), 7000)
  })

  it('has what sandboxes sent, also if the first write fails', async () => {
    await using fixture = await openFixture()
    const { team, usageCounter, stores } = fixture
    usageCounter.noteSent({ teamID: team.teamID, personID: null }, 7)
    const add = stores.usage.add.bind(stores.usage)
    stores.usage.add = () => Promise.reject(new Error('the database is away'))
    await assert.rejects(usageCounter.count(), /is away/)
    stores.usage.add = add
    usageCounter.noteSent({ teamID: team.teamID, personID: null }, 1)
    await usageCounter.count()
    await usageCounter.count()
    const [day] = await usageCounter.read(team.teamID, '2000-01-01', '9999-12-31')
    assert.equal(day?.sentBytes, 8)
  })

  it('has what it stored between two measurements, unless these are far apart', async () => {
    await using fixture = await openFixture()
    const { team, clock, stores } = fixture
    const usedBytes = 3 * 2 ** 20
    const storedBytes = async () => [{ teamID: team.teamID, usedBytes }]
    const usageCounter = new UsageCounter({ usage: stores.usage, clock, storedBytes })
    const measureAfter = async (ms: number) => {
      clock.advance(ms)
      await usageCounter.measureStored()
      const days = await usageCounter.read(team.teamID, '2000-01-01', '9999-12-31')
      return days.reduce((sum, { storedMBMs }) => sum + storedMBMs, 0)
    }
    assert.equal(await measureAfter(0), 0)
    assert.equal(await measureAfter(1000), 3000)
    assert.equal(await measureAfter(dayMs), 3000, 'nothing is known about so long a time')
    assert.equal(await measureAfter(1000), 6000)
  })
})

describe('the budget of a team', () => {
  it('warns, then rejects new sandboxes and forks, and ends none; next month it is fresh', async () => {
    await using fixture = await openFixture()
    const { service, team, clock, usageCounter, budgets, stores, logged } = fixture
    const warnings = () => logged.filter(({ level }) => level === 'warn').map(({ message }) => message)
    const { sandboxID, cpuCount } = await service.create(team, request({ timeoutMs: 20 * hourMs }))
    await stores.usage.changeBudget(team.teamID, { cpuHours: cpuCount })
    clock.advance(0.9 * hourMs)
    await budgets.look()
    await budgets.look()
    assert.deepEqual(warnings(), ['the budget of a team for this month is nearly used'])
    const second = await service.create(team, request({ timeoutMs: 20 * hourMs }))
    await service.kill(team, second.sandboxID)
    clock.advance(0.2 * hourMs)
    await budgets.look()
    assert.equal(warnings().length, 2)
    await assert.rejects(service.create(team, request()), failsWith('limit_reached'))
    await assert.rejects(
      service.create(team, request()),
      /budget of this month: [\d.]+ of \d+ hours of a CPU/,
    )
    await assert.rejects(
      service.fork(team, sandboxID, { timeoutMs: hourMs, count: 1 }),
      /has used up its budget/,
    )
    await service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false })
    await service.connect(team, sandboxID, { timeoutMs: hourMs, memory: true })
    assert.equal((await service.get(team, sandboxID)).state, 'running')
    await usageCounter.count()
    const date = new Date(clock.now())
    clock.advance(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1) - clock.now() + 1)
    await service.create(team, request())
    assert.match(dayOf(clock.now()), /-01$/)
  })
})
