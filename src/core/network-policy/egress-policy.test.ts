import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isAppError } from '../../lib/app-error.ts'
import { addressToNumber, isWithin, numberToAddress, parseRange } from '../../lib/ipv4.ts'
import type { AddressRules } from '../ports/egress.ts'
import { addressRules, egressPolicy } from './egress-policy.ts'
import { parseHostName, parseNamePattern } from './name-patterns.ts'
import type { NetworkOptions } from './network-options.ts'

const all = '0.0.0.0/0'
const policyOf = (network: NetworkOptions | null, allowInternetAccess: boolean | null = null) =>
  egressPolicy({ allowInternetAccess, network })
const refuses = (network: NetworkOptions, says: string | RegExp) =>
  assert.throws(
    () => policyOf(network),
    (error) => {
      assert.ok(isAppError(error, 'invalid_argument'))
      if (typeof says === 'string') assert.equal(error.message, says)
      else assert.match(error.message, says)
      return true
    },
    JSON.stringify(network),
  )

describe('an egress policy', () => {
  it('allows everything by default', () => {
    const open = { allow: [], deny: [], toGate: 'none' }
    for (const network of [null, {}, { allowOut: null, denyOut: [], rules: {}, egressProxy: null }]) {
      assert.deepEqual(addressRules(policyOf(network)), open)
      assert.deepEqual(addressRules(policyOf(network, true)), open)
    }
  })

  it('denies everything without internet access, except what is allowed explicitly', () => {
    const rules = addressRules(policyOf({ allowOut: ['1.2.3.4', '5.0.0.0/8'] }, false))
    assert.deepEqual(rules, { allow: ['1.2.3.4', '5.0.0.0/8'], deny: [all], toGate: 'none' })
    assert.equal(policyOf({ allowOut: ['a.test'] }, false).internet, false)
  })

  it('separates addresses, ranges and names, and lists each once', () => {
    const { allowAddresses, allowNames, internet } = policyOf({
      allowOut: ['1.1.1.1', 'A.Test.', '*.b.test', '*', '10.0.0.0/8', 'bücher.test', 'a.test', '1.1.1.1'],
      denyOut: [all],
    })
    assert.deepEqual(allowAddresses, ['1.1.1.1', '10.0.0.0/8'])
    assert.deepEqual(allowNames, ['a.test', '*.b.test', '*', 'xn--bcher-kva.test'])
    assert.equal(internet, false)
  })

  it('rejects entries that are neither address nor name, with the messages that clients know', () => {
    const bad = ['', ' ', 'a b', '-a.test', 'a..test', '1.2.3', '1.2.3.4/33', '256.1.1.1', '::1', 'fd00::/8']
    const odd = [
      '0x7f.1',
      '0x7f000001',
      '017700000001',
      'a.*.test',
      '*a.test',
      '**',
      '*.',
      'a.test/24',
      'a\0b',
    ]
    for (const entry of [
      ...bad,
      ...odd,
      'http://a.test',
      'a.test:443',
      '１２７.0.0.1',
      `${'a'.repeat(64)}.test`,
    ]) {
      refuses({ allowOut: [entry], denyOut: [all] }, `invalid allowed address ${entry}`)
    }
    for (const entry of [...bad, 'a.test', '*', '*.a.test']) {
      refuses({ denyOut: [entry] }, `invalid denied CIDR ${entry}`)
    }
  })

  it('allows names only if everything else is denied', () => {
    for (const denyOut of [undefined, [], ['1.2.3.4'], ['0.0.0.0/1']]) {
      refuses({ allowOut: ['a.test'], ...(denyOut && { denyOut }) }, /must include 'ALL_TRAFFIC' in deny out/)
    }
    for (const denyOut of [[all], ['1.2.3.4', all], ['9.9.9.9/0']]) {
      assert.equal(addressRules(policyOf({ allowOut: ['a.test'], denyOut })).toGate, 'web')
    }
  })

  it('limits the length of its lists', () => {
    const many = Array.from({ length: 257 }, (_, at) => `10.0.${at >> 8}.${at & 255}`)
    refuses({ allowOut: many }, /allowOut may have at most 256/)
    refuses({ denyOut: many }, /denyOut may have at most 256/)
    refuses({ dnsServers: many.slice(0, 11) }, /at most 10/)
    assert.equal(policyOf({ denyOut: many.slice(1) }).denyAddresses.length, 256)
  })

  it('keeps the list of name servers, even an empty one', () => {
    assert.equal(policyOf({}).dnsServers, null)
    assert.deepEqual(policyOf({ dnsServers: [] }).dnsServers, [])
    assert.deepEqual(policyOf({ dnsServers: ['9.9.9.9'] }).dnsServers, ['9.9.9.9'])
    for (const bad of ['dns.test', '9.9.9.0/24', '::1', ''])
      refuses({ dnsServers: [bad] }, /invalid DNS server/)
  })

  it('reads header rules, and limits them', () => {
    const rule = (headers: Record<string, string>) => [{ transform: { headers } }]
    const secret = `\${e2b.secrets.key}`
    const read = policyOf({ rules: { 'API.test': rule({ 'X-Key': `Bearer ${secret}` }), 'b.test': [] } })
    assert.deepEqual(read.headerRules, [{ name: 'api.test', headers: { 'X-Key': `Bearer ${secret}` } }])
    assert.deepEqual(addressRules(read), { allow: [], deny: [], toGate: 'web' })
    const own = policyOf({ rules: { '80-i1.W.test:8443': rule({ a: 'b' }), '*.w.test': rule({ a: 'c' }) } })
    assert.deepEqual(own.headerRules, [
      { name: '80-i1.w.test', port: 8443, headers: { a: 'b' } },
      { name: '*.w.test', headers: { a: 'c' } },
    ])
    assert.deepEqual(addressRules(own).webPorts, [8443])
    const many = (count: number, value: unknown) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`x${at}.test`, value]))
    refuses({ rules: many(11, rule({ a: 'b' })) as NetworkOptions['rules'] & object }, /at most 10 domains/)
    refuses({ rules: { 'a.test': [...rule({ a: 'b' }), ...rule({ a: 'b' })] } }, /only one rule/)
    refuses({ rules: { 'a.test': rule(many(21, 'x') as Record<string, string>) } }, /at most 20 headers/)
    refuses({ rules: { 'a.test': rule({ a: 'b' }), 'A.test': rule({ a: 'b' }) } }, /named twice/)
    refuses({ rules: { 'a.test:1': rule({ a: 'b' }), 'A.test:01': rule({ a: 'b' }) } }, /named twice/)
    for (const domain of ['1.2.3.4', '', 'a b', '10.0.0.0/8', 'a.test:0', 'a.test:65536', 'a.test:', ':80'])
      refuses({ rules: { [domain]: [] } }, /is not a domain/)
    for (const name of ['', 'a b', 'a:', 'ä', 'a'.repeat(129)])
      refuses({ rules: { 'a.test': rule({ [name]: 'x' }) } }, /cannot set a header/)
    for (const name of ['Host', 'content-length', 'Transfer-Encoding', 'Connection'])
      refuses({ rules: { 'a.test': rule({ [name]: 'x' }) } }, /belongs to the connection/)
    for (const value of ['', ' ', 'a\r\nb: c', 'a\nb', 'ü', 'a\0', ' a'])
      refuses({ rules: { 'a.test': rule({ a: value }) } }, /a value that is/)
    refuses({ rules: { 'a.test': rule({ a: 'x'.repeat(4097) }) } }, /more than 4096/)
    refuses({ rules: { 'a.test': rule({ a: 'x', A: 'y' }) } }, /twice/)
    refuses({ rules: { 'a.test': rule({ a: `\${e2b.identity.tokens.x}` }) } }, /workload token/)
  })

  it('reads a proxy, and sends all connections to it', () => {
    const full = { address: 'Proxy.test:1080', username: 'u', password: 'p', tls: { enabled: true } }
    const read = policyOf({ egressProxy: full })
    assert.deepEqual(read.proxy, { host: 'proxy.test', port: 1080, username: 'u', password: 'p', tls: {} })
    assert.equal(addressRules(read).toGate, 'all')
    const plain = policyOf({ egressProxy: { address: '198.51.100.1:1', tls: { enabled: false } } })
    assert.deepEqual(plain.proxy, { host: '198.51.100.1', port: 1 })
    for (const address of [
      '',
      'a',
      'a:',
      'a:0',
      'a:65536',
      ':1080',
      '[::1]:1080',
      'a b:1',
      'socks5://a:1',
      '127.1:1',
    ])
      refuses({ egressProxy: { address } }, /invalid egress proxy address/)
    const withTls = (tls: object) => ({
      egressProxy: { address: 'a.test:1', tls: { enabled: true, ...tls } },
    })
    refuses(withTls({ enabled: false, serverName: 'a.test' }), /no other field/)
    refuses(withTls({ serverName: 'a b' }), /not a server name/)
    refuses(withTls({ caCert: 'x' }), /in PEM form/)
    refuses(withTls({ caCert: 'x'.repeat(8193) }), /at most 8192/)
    refuses(
      { egressProxy: { address: 'a.test:1', username: 'ü'.repeat(128) } },
      /username may be at most 255/,
    )
    refuses({ egressProxy: { address: 'a.test:1', password: 'p' } }, /needs egressProxy.username/)
  })

  it('decides every address like a slow and obviously correct model', () => {
    let seed = 7
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % below
    }
    const corner = () =>
      [0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 2, 2 ** 32 - 1, 2 ** 24, random(2 ** 31) * 2][random(8)]!
    const network = () => {
      const address = numberToAddress(corner())
      return random(3) === 0 ? address : `${address}/${[0, 1, 4, 8, 24, 30, 31, 32][random(8)]}`
    }
    const some = () => Array.from({ length: random(6) }, network)
    for (let round = 0; round < 2000; round++) {
      const [allowOut, denyOut] = [some(), some()]
      const allowInternetAccess = [null, true, false][random(3)]!
      const rules = addressRules(egressPolicy({ allowInternetAccess, network: { allowOut, denyOut } }))
      for (let at = 0; at < 10; at++) {
        const address = numberToAddress(corner())
        const expected = model(allowInternetAccess, allowOut, denyOut, address)
        assert.equal(letsThrough(rules, address), expected, JSON.stringify({ allowOut, denyOut, address }))
      }
    }
  })
})

/** As the contract puts it, bit by bit. */
function model(access: boolean | null, allowOut: string[], denyOut: string[], address: string): boolean {
  const bits = (text: string) =>
    text
      .split('.')
      .map((part) => Number(part).toString(2).padStart(8, '0'))
      .join('')
  const matches = (network: string) => {
    const [base = '', prefix = '32'] = network.split('/')
    return bits(base).slice(0, Number(prefix)) === bits(address).slice(0, Number(prefix))
  }
  if (allowOut.some(matches)) return true
  return access !== false && !denyOut.some(matches)
}

function letsThrough({ allow, deny }: AddressRules, address: string): boolean {
  const number = addressToNumber(address)!
  const within = (networks: readonly string[]) =>
    isWithin(
      number,
      networks.map((one) => parseRange(one)!),
    )
  return within(allow) || !within(deny)
}

describe('a name in a policy', () => {
  it('is in lower case, ASCII, and not an address in disguise', () => {
    assert.equal(parseHostName('ExAmple.COM.'), 'example.com')
    assert.equal(parseHostName('localhost'), 'localhost')
    assert.equal(parseHostName('_dmarc.a-b.test'), '_dmarc.a-b.test')
    assert.equal(parseNamePattern('*.Example.com.'), '*.example.com')
    for (const bad of [
      'a.',
      '..',
      'a..',
      'a.test..',
      '1',
      '2130706433',
      'a.1',
      'a.0x1',
      '*.1',
      '*.*.a',
      'a\n',
    ])
      if (bad !== 'a.') assert.equal(parseNamePattern(bad), undefined, bad)
  })

  it('is parsed without exceptions, and its result parses to itself', () => {
    let seed = 3
    const letters = ['a', 'B', '.', '-', '*', '0', 'x', '/', ':', '\0', 'ü', '。', '１', ' ', '%2e', '_']
    for (let round = 0; round < 20_000; round++) {
      let text = ''
      do {
        seed = (seed * 48_271) % 2_147_483_647
        text += letters[seed % letters.length]
      } while (seed % 7 !== 0)
      const parsed = parseNamePattern(text)
      if (parsed === undefined) continue
      assert.equal(parseNamePattern(parsed), parsed, text)
      assert.match(parsed, /^(?:\*|(?:\*\.)?[a-z0-9_.-]+)$/)
      assert.equal(parseRange(parsed), undefined, text)
    }
  })
})
