import assert from 'node:assert/strict'
import { it } from 'node:test'
import { flowForgetter } from './flow-forgetter.ts'

it('connections of later sandboxes are ended although it failed once, and a lasting failure is logged once', async () => {
  const [forgotten, logged]: [string[], string[]] = [[], []]
  let fails = false
  const forget = flowForgetter(
    (message) => void logged.push(message),
    async (address) => {
      if (fails) throw new Error('ENOBUFS: connections by their address')
      forgotten.push(address)
    },
  )
  await forget('10.0.0.2')
  fails = true
  await forget('10.0.0.6')
  await forget('10.0.0.10')
  fails = false
  await forget('10.0.0.14')
  assert.deepEqual(forgotten, ['10.0.0.2', '10.0.0.14'])
  assert.equal(logged.length, 1)
})
