import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openFixture, request, turning, until } from '../../../../test/support/domain.ts'
import { connectionLost } from '../../../../test/support/store-faults.ts'
import { isAppError } from '../../../lib/app-error.ts'

type Fixture = Awaited<ReturnType<typeof openFixture>>

/** The database carries out the transition to `running`, and answers nothing from then on. */
function outageAtLastTransition(faults: Fixture['faults']): { end(): void } {
  let isUnreachable = false
  faults.before = () => {
    if (isUnreachable) throw connectionLost()
  }
  faults.after = (method, args) => {
    if (method !== 'transition' || args[1] !== 'running') return
    isUnreachable = true
    throw connectionLost()
  }
  return {
    end: () => {
      isUnreachable = false
    },
  }
}

test('a create whose client was told that it failed leaves nothing, although its row says that it runs', async () => {
  await using fixture = await openFixture()
  const { service, team, driver, stores, faults, clock } = fixture
  const outage = outageAtLastTransition(faults)
  await assert.rejects(turning(clock, service.create(team, request())), /cannot be reached/)
  assert.equal(driver.world.sandboxes.size, 0, 'the sandbox is gone at once')
  const [row] = await stores.sandboxes.listUnended()
  assert.equal(row?.state, 'running', 'the database has what it was asked for')
  outage.end()
  await until(async () => {
    clock.advance(1000)
    return (await stores.sandboxes.listUnended()).length === 0
  })
  const ended = await stores.owners.findSandbox(row!.sandboxID)
  assert.deepEqual([ended?.state, ended?.endReason], ['ended', 'create_failed'])
})

test('a create whose sandbox could not be stopped does not tell its client that nothing was created', async () => {
  await using fixture = await openFixture()
  const { service, team, driver, stores, faults, clock } = fixture
  const outage = outageAtLastTransition(faults)
  const stop = driver.stop.bind(driver)
  driver.stop = () => Promise.reject(new Error('the runtime does not answer'))
  await assert.rejects(turning(clock, service.create(team, request())), (error) => {
    assert.ok(isAppError(error))
    assert.match(
      error.message,
      /it is not known whether sandbox ".+" exists now: list the sandboxes before you/,
    )
    assert.equal(error.retry?.should, false)
    return true
  })
  assert.equal(driver.world.sandboxes.size, 1)
  outage.end()
  driver.stop = stop
  await until(async () => {
    clock.advance(1000)
    return (await stores.sandboxes.listUnended()).length === 0
  })
  assert.equal(driver.world.sandboxes.size, 0)
})

test('a create whose earlier request made a sandbox is not told as failed while the database is away', async () => {
  await using fixture = await openFixture()
  const { service, team, stores, clock } = fixture
  const { sandboxID } = await service.create(team, request())
  const find = stores.owners.findSandbox.bind(stores.owners)
  let failures = 2
  stores.owners.findSandbox = async (asked) => {
    if (failures-- > 0) throw connectionLost()
    return find(asked)
  }
  const again = () => turning(clock, service.createdBy({ sandboxID, requestHash: 'same' }))
  assert.equal((await again()).sandboxID, sandboxID, 'a moment is waited for')
  failures = Number.POSITIVE_INFINITY
  await assert.rejects(again(), { slug: 'create_outcome_unknown' })
})
