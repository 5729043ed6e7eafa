import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { parseNetwork, TrustedProxies } from './client-origin.ts'

const from = (remoteAddress: string, forwarded?: string) =>
  ({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  }) as unknown as IncomingMessage

test('the address in X-Forwarded-For counts only if a trusted proxy has written it', () => {
  const proxies = new TrustedProxies(['10.0.0.0/8', '::1'])
  const seen = (remote: string, forwarded?: string) => proxies.clientAddressOf(from(remote, forwarded))
  assert.equal(seen('203.0.113.9', '198.51.100.1'), '203.0.113.9', 'a client that writes the header itself')
  assert.equal(seen('10.0.0.1', '198.51.100.1'), '198.51.100.1')
  assert.equal(seen('::ffff:10.0.0.1', '198.51.100.1'), '198.51.100.1')
  assert.equal(seen('::1', '192.0.2.66, 198.51.100.1, 10.0.0.2'), '198.51.100.1', 'what a client put before')
  assert.equal(seen('10.0.0.1', 'not an address'), '10.0.0.1')
  assert.equal(seen('10.0.0.1'), '10.0.0.1')
  assert.equal(seen('10.0.0.1', '2001:db8::5'), '2001:db8::5')
  assert.equal(new TrustedProxies([]).clientAddressOf(from('10.0.0.1', '198.51.100.1')), '10.0.0.1')
})

test('a network is an address, or an address and the length of its prefix', () => {
  const good = ['10.0.0.0/8', '10.0.0.1', '::1', 'fd00::/8']
  assert.deepEqual(
    good.map((text) => parseNetwork(text)?.prefix),
    [8, 32, 128, 8],
  )
  const bad = ['10.0.0.0/33', 'proxy', '10.0.0.0/8/8', '10.0.0.0/', '::/129', '']
  assert.deepEqual(
    bad.filter((text) => parseNetwork(text)),
    [],
  )
})
