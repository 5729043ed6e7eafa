import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { addTeam, type Fixture, openFixture, request, until } from '../../../test/support/domain.ts'
import { connectionLost } from '../../../test/support/store-faults.ts'
import type { ManualClock } from '../../lib/clock.ts'

const options = { ...request().options, autoPause: true }
const second = 1000
const minute = 60_000

/** Lets time pass in steps that are short enough for every timer of the expiry. */
async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 50) {
    clock.advance(50)
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
  }
}

const countOf = ({ logged }: Fixture, text: string) =>
  logged.filter(({ message }) => message.includes(text)).length

describe('the expiry', () => {
  it('tries a pause that fails again at growing intervals, and the others at once', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, clock, stores, faults } = fixture
    let fails = true
    const first = await service.create(team, request({ timeoutMs: second, options }))
    faults.before = (method, args) => {
      const [at, to] = args as [{ sandboxID: string } | undefined, string | undefined]
      if (fails && method === 'transition' && to === 'pausing' && at?.sandboxID === first.sandboxID)
        throw new Error('the row cannot be written')
    }
    await pass(clock, 5 * minute)
    const tries = countOf(fixture, 'could not be paused')
    assert.ok(tries >= 5 && tries <= 15, `${tries} tries in five minutes`)
    const next = await service.create(team, request({ timeoutMs: second, options }))
    await pass(clock, 3 * second)
    assert.equal((await stores.sandboxes.find(next.sandboxID))?.state, 'paused')
    fails = false
    await pass(clock, minute + second)
    assert.equal((await stores.sandboxes.find(first.sandboxID))?.state, 'paused')
    assert.equal(driver.world.sandboxes.size, 0)
  })

  it('tries an end that fails again at growing intervals', async () => {
    await using fixture = await openFixture()
    const { service, team, clock, stores, faults } = fixture
    const { sandboxID } = await service.create(team, request({ timeoutMs: second }))
    faults.before = (method, args) => {
      if (method === 'transition' && args[1] === 'killing') throw new Error('the row cannot be written')
    }
    await pass(clock, minute)
    const tries = countOf(fixture, 'could not be ended')
    assert.ok(tries >= 10 && tries <= 16, `${tries} tries in a minute`)
    faults.before = () => {}
    await pass(clock, 5 * second)
    await until(async () => (await stores.sandboxes.find(sandboxID))?.state === 'ended')
  })

  it('asks a store that is away at growing intervals, and ends what is due soon after it is back', async () => {
    await using fixture = await openFixture()
    const { service, clock, stores, faults } = fixture
    const { sandboxID } = await service.create(await addTeam(fixture, 'beta'), request({ timeoutMs: second }))
    faults.before = (method) => {
      if (method === 'listExpired') throw connectionLost()
    }
    await pass(clock, minute)
    const tries = countOf(fixture, 'could not read the store')
    assert.ok(tries >= 5 && tries <= 12, `${tries} tries in a minute`)
    faults.before = () => {}
    await pass(clock, 10 * second)
    await until(async () => (await stores.sandboxes.find(sandboxID))?.state === 'ended')
  })
})
