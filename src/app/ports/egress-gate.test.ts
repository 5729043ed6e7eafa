import assert from 'node:assert/strict'
import { it } from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { createIsClosed } from './egress-gate.ts'

it('the gate connects to open addresses, and to internal ones only where the operator allows it', () => {
  const clock = new ManualClock()
  const networks = [{ cidr: '203.0.113.9/28', address: '203.0.113.9' }]
  const here = () => [...networks, { cidr: '10.20.0.5/16', address: '10.20.0.5' }]
  const isClosed = createIsClosed(['10.20.0.0/16', '10.213.0.0/16'], '10.213.0.0/16', clock, here)
  for (const open of ['198.51.100.7', '8.8.8.8', '203.0.113.17', '10.20.0.1']) {
    assert.equal(isClosed(open), false, open)
  }
  const private4 = ['10.0.0.1', '127.0.0.1', '169.254.169.254', '100.100.100.200', '192.168.0.1', '0.0.0.0']
  const never = ['10.20.0.5', '203.0.113.9', '10.213.0.2', '10.213.255.253']
  const odd = ['::1', '::ffff:8.8.8.8', '2130706433', 'a.test', '', '224.0.0.1', '255.255.255.255']
  for (const closed of [...private4, ...never, ...odd, '203.0.113.2']) {
    assert.equal(isClosed(closed), true, closed)
  }
})

it('the gate notices networks that the machine has joined since the start', async () => {
  const clock = new ManualClock()
  const networks: { cidr: string; address: string }[] = []
  const isClosed = createIsClosed([], '10.213.0.0/16', clock, () => networks)
  assert.equal(isClosed('203.0.113.2'), false)
  networks.push({ cidr: '203.0.113.9/28', address: '203.0.113.9' })
  clock.advance(5000)
  assert.equal(isClosed('203.0.113.2'), true)
})
