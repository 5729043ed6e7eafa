import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isAppError } from '../../../lib/app-error.ts'
import { parseSubnet } from './addresses.ts'

describe('the subnet of the sandboxes', () => {
  it('gives every slot a gateway and an address of its own', () => {
    const subnet = parseSubnet('10.213.0.0/16')
    assert.equal(subnet.capacity, 16_383)
    assert.deepEqual([subnet.gateway(0), subnet.sandbox(0)], ['10.213.0.1', '10.213.0.2'])
    assert.deepEqual([subnet.gateway(64), subnet.sandbox(16_382)], ['10.213.1.1', '10.213.255.250'])
  })

  it('reserves an address for the gate that no slot has', () => {
    const subnet = parseSubnet('10.213.4.0/28')
    const slots = [...Array(subnet.capacity).keys()]
    assert.equal(subnet.gate, '10.213.4.13')
    assert.ok(!slots.some((slot) => [subnet.gateway(slot), subnet.sandbox(slot)].includes(subnet.gate)))
  })

  it('counts past the middle of the address space', () => {
    assert.equal(parseSubnet('192.168.0.0/24').sandbox(62), '192.168.0.250')
  })

  for (const bad of [
    '10.0.0.0',
    '10.0.0.0/33',
    '10.0.0.1/24',
    '300.0.0.0/16',
    '10.0.0.0/30',
    'fd00::/64',
    '',
  ]) {
    it(`refuses "${bad}"`, () => {
      assert.throws(
        () => parseSubnet(bad),
        (error) => isAppError(error, 'invalid_argument'),
      )
    })
  }
})
