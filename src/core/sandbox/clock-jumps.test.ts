/** The machine's clock is set while sandboxes run. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Fixture, openFixture, request, until } from '../../../test/support/domain.ts'
import { JumpingClock } from '../../../test/support/jumping-clock.ts'

const hour = 3_600_000
/** Expiry looks at least this often, whatever it waits for. */
const lookMs = 60_000

const autoPause = { ...request().options, autoPause: true }
const stateOf = async ({ stores }: Fixture, sandboxID: string) =>
  (await stores.sandboxes.find(sandboxID))?.state

/** Lets the next look at what is due come, and everything that it begins. */
async function look(fixture: Fixture): Promise<void> {
  fixture.clock.advance(lookMs)
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
}

describe('a clock that is set forward by an hour', () => {
  it('ends and pauses sandboxes within a minute whose timeout is over by the new time, and no others', async () => {
    const clock = new JumpingClock()
    await using fixture = await openFixture({ clock })
    const { service, team, driver } = fixture
    const brief = await service.create(team, request({ timeoutMs: hour / 2 }))
    const paused = await service.create(team, request({ timeoutMs: hour / 2, options: autoPause }))
    const long = await service.create(team, request({ timeoutMs: 3 * hour }))
    clock.jump(hour)
    await look(fixture)
    await until(async () => (await stateOf(fixture, brief.sandboxID)) === 'ended')
    await until(async () => (await stateOf(fixture, paused.sandboxID)) === 'paused')
    assert.equal(await stateOf(fixture, long.sandboxID), 'running')
    assert.equal((await driver.list()).length, 1)
  })

  it('leaves their whole timeout to sandboxes created after it', async () => {
    const clock = new JumpingClock()
    await using fixture = await openFixture({ clock })
    const { service, team } = fixture
    clock.jump(hour)
    const { sandboxID } = await service.create(team, request({ timeoutMs: 5000 }))
    clock.advance(4999)
    assert.equal(await stateOf(fixture, sandboxID), 'running')
    clock.advance(1)
    await until(async () => (await stateOf(fixture, sandboxID)) === 'ended')
  })
})

describe('a clock that is set back by an hour', () => {
  it('cuts no timeout short, and ends each sandbox at the time that its client was told', async () => {
    const clock = new JumpingClock()
    await using fixture = await openFixture({ clock })
    const { service, team } = fixture
    const { sandboxID, endAt } = await service.create(team, request({ timeoutMs: 5000 }))
    clock.jump(-hour)
    while (clock.now() < endAt! - lookMs) {
      await look(fixture)
      assert.equal(await stateOf(fixture, sandboxID), 'running')
    }
    clock.advance(endAt! - clock.now())
    await until(async () => (await stateOf(fixture, sandboxID)) === 'ended')
  })

  it('does not delay the end of sandboxes created after it', async () => {
    const clock = new JumpingClock()
    await using fixture = await openFixture({ clock })
    const { service, team } = fixture
    const before = await service.create(team, request({ timeoutMs: hour }))
    clock.jump(-hour)
    const after = await service.create(team, request({ timeoutMs: 5000 }))
    clock.advance(5000)
    await until(async () => (await stateOf(fixture, after.sandboxID)) === 'ended')
    assert.equal(await stateOf(fixture, before.sandboxID), 'running')
  })

  it('makes a set-timeout count from the new time', async () => {
    const clock = new JumpingClock()
    await using fixture = await openFixture({ clock })
    const { service, team } = fixture
    const { sandboxID } = await service.create(team, request({ timeoutMs: hour }))
    clock.jump(-hour)
    await service.setTimeout(team, sandboxID, 5000)
    clock.advance(4999)
    assert.equal(await stateOf(fixture, sandboxID), 'running')
    clock.advance(1)
    await until(async () => (await stateOf(fixture, sandboxID)) === 'ended')
  })

  it('ends nothing early after a restart either', async () => {
    const clock = new JumpingClock()
    const before = await openFixture({ clock })
    const { sandboxID } = await before.service.create(before.team, request({ timeoutMs: hour }))
    clock.jump(-hour)
    await using fixture = await before.again()
    await fixture.reconciler.run()
    await look(fixture)
    assert.equal(await stateOf(fixture, sandboxID), 'running')
  })
})
