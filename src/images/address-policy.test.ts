import assert from 'node:assert/strict'
import { networkInterfaces } from 'node:os'
import { test } from 'node:test'
import { Addresses, isPublic } from './address-policy.ts'

const closed = [
  ...[
    '0.0.0.0',
    '10.0.0.1',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.255',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.1',
  ],
  ...['192.0.0.8', '192.168.1.1', '198.18.0.1', '203.0.113.5', '224.0.0.1', '255.255.255.255'],
  ...[
    '::',
    '::1',
    'fe80::1',
    'fe80::1%eth0',
    'fc00::1',
    'fd12::1',
    'ff02::1',
    '2001:db8::1',
    '2002:7f00:1::',
    '2001::1',
    '100::1',
  ],
  ...[
    '::ffff:127.0.0.1',
    '::ffff:a00:1',
    '64:ff9b::10.0.0.1',
    '64:ff9b::a9fe:a9fe',
    '64:ff9b:1::1',
    '::127.0.0.1',
    '3fff::1',
  ],
]
const open = [
  '1.1.1.1',
  '93.184.216.34',
  '172.32.0.1',
  '100.128.0.1',
  '2606:4700::1111',
  '2a00:1450::1',
  '::ffff:1.1.1.1',
  '64:ff9b::1.1.1.1',
]

test('only addresses of the public internet are public', () => {
  assert.deepEqual(closed.filter(isPublic), [])
  assert.deepEqual(
    open.filter((address) => !isPublic(address)),
    [],
  )
})

test("the machine's own addresses are not public, whatever they are", () => {
  const own = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  assert.ok(own.length > 0)
  assert.deepEqual(
    own.filter(({ address }) => isPublic(address)),
    [],
  )
})

const at = (address: string, rules = {}) =>
  new Addresses({ allowPrivate: [], insecure: [], lookup: async () => [{ address, family: 4 }], ...rules })

test('without TLS only listed hosts are asked', async () => {
  const url = new URL('http://registry.test:5000/')
  await at('1.1.1.1').assertScheme(new URL('https://registry.test/'))
  await assert.rejects(at('1.1.1.1').assertScheme(url), /without encryption/)
  for (const entry of ['registry.test', 'REGISTRY.test', 'registry.test:5000'])
    await at('1.1.1.1', { insecure: [entry] }).assertScheme(url)
  for (const entry of ['registry.test:5001', 'test', '*.test', 'other']) {
    await assert.rejects(at('1.1.1.1', { insecure: [entry] }).assertScheme(url), /without encryption/)
  }
  await at('127.0.0.1', { allowPrivate: ['*'] }).assertScheme(url)
  await assert.rejects(at('10.0.0.1', { allowPrivate: ['*'] }).assertScheme(url), /without encryption/)
})

test('a name without an address gets another error than a failed look-up', async () => {
  const failing = (code: string) => async () => {
    throw Object.assign(new Error(code), { code })
  }
  await assert.rejects(at('', { lookup: failing('ENOTFOUND') }).addressesOf(new URL('https://x.test')), {
    code: 'not_found',
  })
  await assert.rejects(at('', { lookup: failing('EAI_AGAIN') }).addressesOf(new URL('https://x.test')), {
    code: 'unavailable',
  })
  await assert.rejects(at('', { lookup: async () => [] }).addressesOf(new URL('https://x.test')), {
    code: 'permission_denied',
  })
})
