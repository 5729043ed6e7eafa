import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AddressRules, openRules } from '../../../core/ports/egress.ts'
import { isAppError } from '../../../lib/app-error.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { createLayout } from '../record/layout.ts'
import { parseSubnet } from './addresses.ts'
import { Firewall } from './firewall.ts'
import type { Limited } from './ruleset.ts'

const subnet = parseSubnet('10.213.0.0/16')
const one = subnet.sandbox(0)
const two = subnet.sandbox(1)
const closed: AddressRules = { ...openRules, deny: ['0.0.0.0/0'] }
const some: AddressRules = {
  allow: ['192.0.2.0/25', '192.0.2.200'],
  deny: ['198.51.100.0/24'],
  toGate: 'web',
  webPorts: [8443],
}

/** Opens a firewall in its own network namespace, with records in memory and an nft that fails on demand. */
async function openFirewall(name: string, rejected?: string) {
  const namespace = `warren-fw-${name}-${process.pid}`
  await runCommand('ip', ['netns', 'add', namespace])
  const table = createLayout('/tmp/none', 'abcdef')
  const written = new Map<string, AddressRules>()
  const nft = async (args: readonly string[], input?: string) =>
    (
      await runCommand('ip', ['netns', 'exec', namespace, 'nft', ...args], {
        ...(input !== undefined && { input }),
      })
    ).stdout
  const faults = { beforeNft: async (_input: string | undefined): Promise<void> => {} }
  const firewall = new Firewall(
    {
      layout: table,
      subnet,
      dnsServers: ['172.31.0.1'],
      openedRanges: [],
      flowShares: { perSandbox: 100 },
      nft: async (args, input) => {
        await faults.beforeNft(input)
        if (rejected !== undefined && input?.includes(rejected)) throw new Error('nft: syntax error')
        return nft(args, input)
      },
    },
    async (): Promise<Limited[]> => [...written].map(([address, egress]) => ({ address, egress })),
  )
  await firewall.load()
  return {
    firewall,
    faults,
    written,
    nft,
    table: `inet ${table.table}`,
    /** Changes rules in the driver's order: first the record, then the kernel. */
    limit: async (address: string, egress: AddressRules) => {
      const before = written.get(address) ?? openRules
      written.set(address, egress)
      await firewall.replace(address, before, egress)
    },
    denies: async (address: string) =>
      (await nft(['list', 'set', 'inet', table.table, 'denied'])).includes(`${address} . `),
    async [Symbol.asyncDispose]() {
      await runCommand('ip', ['netns', 'delete', namespace])
    },
  }
}

const failing = async (input: string | undefined) => {
  if (input !== undefined) throw new Error('nft: Could not process rule: No such file or directory')
}

test('rules that neither a change nor a load could apply are applied by the next call with the same rules', async () => {
  await using opened = await openFirewall('again')
  opened.faults.beforeNft = failing
  const expected = (error: unknown) => {
    assert.ok(isAppError(error, 'unavailable'))
    assert.match(error.message, /^The egress rules .* not known which ones hold now\. Try again/)
    assert.doesNotMatch(error.message, /nft|No such file/)
    assert.match(String((error.cause as AggregateError).errors[0]), /No such file/)
    return true
  }
  await assert.rejects(opened.limit(one, closed), expected)
  await assert.rejects(opened.limit(one, closed), expected)
  assert.equal(await opened.firewall.isWhole(), false)
  assert.equal(await opened.firewall.isAsApplied(), false)
  opened.faults.beforeNft = async () => {}
  assert.equal(await opened.denies(one), false)
  await opened.limit(one, closed)
  assert.equal(await opened.denies(one), true)
  assert.equal(await opened.firewall.isWhole(), true)
})

test('rules that may not be in force are applied with the next change of any sandbox', async () => {
  await using opened = await openFirewall('others')
  opened.faults.beforeNft = failing
  await assert.rejects(opened.limit(one, closed))
  opened.faults.beforeNft = async () => {}
  await opened.limit(two, some)
  assert.deepEqual([await opened.denies(one), await opened.denies(two)], [true, true])
})

test('a change whose answer is lost is repeated as a whole', async () => {
  await using opened = await openFirewall('lost')
  let lost = 1
  const { nft } = opened
  opened.faults.beforeNft = async (input) => {
    if (input === undefined || lost-- <= 0) return
    await nft(['-f', '-'], input)
    throw new Error('nft was killed')
  }
  await opened.limit(one, some)
  assert.equal(await opened.firewall.isAsApplied(), true)
  await opened.limit(one, openRules)
  assert.equal(await opened.denies(one), false)
})

test('the next sandbox at an address has none of the rules that a load brought back for the last one', async () => {
  await using opened = await openFirewall('reuse')
  await opened.limit(one, closed)
  await opened.firewall.forget({ address: one, egress: closed })
  // The record of the last sandbox still exists.
  await opened.firewall.load()
  assert.equal(await opened.denies(one), true)
  opened.written.delete(one)
  await opened.limit(one, openRules)
  assert.equal(await opened.denies(one), false)
})

test('any change of the table by somebody else is detected', async () => {
  await using opened = await openFirewall('seen')
  const { firewall, nft, table } = opened
  await opened.limit(one, some)
  await opened.limit(two, closed)
  assert.equal(await firewall.isAsApplied(), true)
  const change = (text: string) => nft(['-f', '-'], `${text}\n`)
  for (const text of [
    `flush set ${table} denied`,
    `delete element ${table} web { ${one} . 8443 }`,
    `add element ${table} allowed { ${two} . 203.0.113.7 }`,
    `flush set ${table} closed`,
    `flush chain ${table} through`,
    `add rule ${table} from-sandbox accept`,
  ]) {
    await change(text)
    assert.equal(await firewall.isAsApplied(), false, text)
    assert.equal(await firewall.isWhole(), true, text)
    await firewall.load()
    assert.equal(await firewall.isAsApplied(), true, text)
  }
  await change(`add element ${table} flows { "wabcdef7" . 0 ct count over 100 }`)
  assert.equal(await firewall.isAsApplied(), true)
  await change(`delete table ${table}`)
  assert.equal(await firewall.isWhole(), false)
})

test('owners of connections are told to the kernel as they come and go, also after a load', async () => {
  await using opened = await openFirewall('owners')
  const { firewall, nft, table } = opened
  const countsOf = async () =>
    [...(await nft(['list', 'map', ...table.split(' '), 'owners'])).matchAll(/"(\w+)" : (\S+?),?\s/g)]
      .map(([, link, number]) => `${link} ${number}`)
      .sort()
  const share = (ownerOf: Record<string, string>) =>
    firewall.shareFlows(() => new Map(Object.entries(ownerOf)))
  assert.equal(await share({ wabcdef1: 'one' }), true)
  assert.deepEqual(await countsOf(), ['wabcdef1 0:1'])
  await share({ wabcdef1: 'one', wabcdef2: 'two', wabcdef3: 'one' })
  assert.deepEqual(await countsOf(), ['wabcdef1 0:1', 'wabcdef2 0:2', 'wabcdef3 0:1'])
  assert.equal(await firewall.isAsApplied(), true)
  // The link has another sandbox, and the first owner has none any more.
  await share({ wabcdef2: 'two', wabcdef3: 'three' })
  assert.deepEqual(await countsOf(), ['wabcdef2 0:2', 'wabcdef3 0:1'])
  await firewall.load()
  assert.deepEqual(await countsOf(), ['wabcdef2 0:2', 'wabcdef3 0:1'])
  opened.faults.beforeNft = failing
  await assert.rejects(share({ wabcdef2: 'two' }))
  opened.faults.beforeNft = async () => {}
  await share({ wabcdef2: 'two' })
  assert.deepEqual(await countsOf(), ['wabcdef2 0:2'])
})

test('a link that gets another sandbox counts for nobody until its owner is told', async () => {
  await using opened = await openFirewall('disowned')
  const { firewall, nft, table } = opened
  const listed = () => nft(['list', 'map', ...table.split(' '), 'owners'])
  const ownerOf = new Map([
    ['wabcdef1', 'one'],
    ['wabcdef2', 'two'],
  ])
  await firewall.shareFlows(() => ownerOf)
  await firewall.disown('wabcdef1')
  assert.doesNotMatch(await listed(), /wabcdef1/)
  assert.match(await listed(), /wabcdef2/)
  await firewall.shareFlows(() => ownerOf)
  assert.match(await listed(), /wabcdef1/)
})

test('a machine that cannot count by owner keeps its table', async () => {
  await using opened = await openFirewall('old-kernel', 'ct id')
  assert.equal(await opened.firewall.shareFlows(() => new Map([['wabcdef1', 'one']])), false)
  assert.equal(await opened.firewall.isAsApplied(), true)
  const listed = await opened.nft(['list', 'table', ...opened.table.split(' ')])
  assert.match(listed, /add @flows { iifname ct count over 100 } drop/)
  assert.doesNotMatch(listed, /owners/)
})
