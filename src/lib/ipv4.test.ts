import assert from 'node:assert/strict'
import { isIPv4 } from 'node:net'
import { test } from 'node:test'
import {
  type AddressRange,
  addressToNumber,
  isWithin,
  mergeRanges,
  numberToAddress,
  parseRange,
} from './ipv4.ts'

test('addresses have one spelling, and are written as they were read', () => {
  for (const text of ['0.0.0.0', '10.0.0.1', '127.0.0.1', '255.255.255.255']) {
    assert.equal(numberToAddress(addressToNumber(text)!), text)
  }
  const odd = [
    '',
    '1',
    '1.2.3',
    '1.2.3.4.5',
    '256.0.0.1',
    '01.2.3.4',
    '0x7f.0.0.1',
    '1.2.3.4 ',
    '::1',
    '1.2.3.-4',
  ]
  for (const text of odd) {
    assert.equal(addressToNumber(text), undefined, text)
    assert.equal(isIPv4(text), false, text)
  }
})

test('a network is its range of addresses, up to the last possible one', () => {
  const range = (text: string) => {
    const found = parseRange(text)
    return found && `${numberToAddress(found.first)}-${numberToAddress(found.last)}`
  }
  assert.equal(range('1.2.3.4'), '1.2.3.4-1.2.3.4')
  assert.equal(range('1.2.3.4/24'), '1.2.3.0-1.2.3.255')
  assert.equal(range('0.0.0.0/0'), '0.0.0.0-255.255.255.255')
  assert.equal(range('255.255.255.255/32'), '255.255.255.255-255.255.255.255')
  assert.equal(range('240.0.0.0/4'), '240.0.0.0-255.255.255.255')
  for (const text of [
    '1.2.3.4/33',
    '1.2.3.4/',
    '1.2.3.4/08',
    '1.2.3.4/-1',
    '1.2.3.4/2/3',
    '1.2.3/8',
    '::/0',
  ]) {
    assert.equal(parseRange(text), undefined, text)
  }
})

test('merged ranges contain the same addresses as before', () => {
  let seed = 1
  const random = (below: number) => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % below
  }
  for (let round = 0; round < 300; round++) {
    const ranges: AddressRange[] = Array.from({ length: random(12) }, () => {
      const first = random(60)
      return { first, last: first + random(10) }
    })
    const merged = mergeRanges(ranges)
    for (let address = 0; address < 75; address++) {
      assert.equal(isWithin(address, merged), isWithin(address, ranges))
    }
    for (const [index, range] of merged.entries()) {
      assert.ok(index === 0 || range.first > merged[index - 1]!.last + 1)
    }
  }
})
