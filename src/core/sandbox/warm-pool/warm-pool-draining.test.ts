import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Fixture, gate, openFixture, until } from '../../../../test/support/domain.ts'

/** The pool keeps sandboxes of the base from now on. */
const keepBase = async ({ warm, catalog, team }: Fixture) =>
  warm.keepReady((await catalog.resolve(team, 'base')).build)

/** Turns the clock until this number of sandboxes is in the pool. */
const has = ({ warm, clock }: Fixture, count: number) =>
  until(async () => {
    clock.advance(100)
    return warm.count().ready === count && warm.count().booting === 0
  })

test('the warm pool is empty while its node is draining, and fills again afterwards', async () => {
  await using fixture = await openFixture({ warm: 2 })
  await keepBase(fixture)
  await has(fixture, 2)
  await fixture.warm.setDraining(true)
  assert.deepEqual(await fixture.driver.list(), [])
  for (let minutes = 0; minutes < 3; minutes++) {
    fixture.clock.advance(60_000)
    await has(fixture, 0)
  }
  assert.deepEqual(await fixture.driver.list(), [])
  await fixture.warm.setDraining(false)
  await has(fixture, 2)
})

test('the warm pool drops sandboxes that were booting when its node began to drain', async () => {
  await using fixture = await openFixture({ warm: 1 })
  const { warm, driver, clock } = fixture
  const blocked = gate()
  driver.beforeStarted = () => blocked.opened
  await keepBase(fixture)
  await until(async () => {
    clock.advance(100)
    return warm.count().booting === 1
  })
  await warm.setDraining(true)
  blocked.open()
  await has(fixture, 0)
  await until(async () => (await driver.list()).length === 0)
})
