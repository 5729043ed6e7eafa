import assert from 'node:assert/strict'
import { it } from 'node:test'
import { envdPort } from '../contract/constants.ts'
import { systemClock } from '../lib/clock.ts'
import { Clients } from './clients.ts'

it('a client counts as new from when it comes until it leaves, on every port', () => {
  for (const port of [envdPort, 80]) {
    const clients = new Clients(2)
    const before = systemClock.now() - 1
    assert.equal(clients.hasNewerThan(before), false)
    const leave = clients.enter(port, () => {})!
    assert.equal(clients.hasNewerThan(before), true)
    assert.equal(clients.hasNewerThan(systemClock.now()), false)
    leave()
    assert.equal(clients.hasNewerThan(before), false)
  }
})
