import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type AddressRules, openRules } from '../../../core/ports/egress.ts'
import { addressToNumber, numberToAddress } from '../../../lib/ipv4.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { createLayout } from '../record/layout.ts'
import { parseSubnet } from './addresses.ts'
import { changes, elementsOf, ruleset } from './ruleset.ts'

const layout = createLayout('/tmp/none', 'abcdef')
const subnet = parseSubnet('10.213.0.0/16')
const table = `inet ${layout.table}`
const all = (limited: { address: string; egress: AddressRules }[]) =>
  ruleset({
    hasTimeouts: true,
    layout,
    subnet,
    limited,
    dnsServers: ['172.31.0.1'],
    openedRanges: ['10.0.0.0/8'],
    hostNetworks: ['127.0.0.1/8', '192.0.2.9/24'],
    hasParts: true,
    shares: { perSandbox: 4096, perOwner: 65_536, all: 196_608 },
    owners: new Map([['wabcdef7', 3]]),
    gatePorts: { proxy: 1, dns: 2 },
  })

/** Runs a script in a network namespace of its own: the real kernel answers, and no traffic is affected. */
const inKernel = (script: string) => runCommand('unshare', ['--net', 'sh', '-e'], { input: script })
const load = (text: string) => `nft -f - <<'END'\n${text}\nEND\n`

let seed = 11
const random = (below: number) => {
  seed = (seed * 48_271) % 2_147_483_647
  return seed % below
}
const corners = [
  '0.0.0.0',
  '127.255.255.255',
  '128.0.0.0',
  '198.51.100.7',
  '255.255.255.254',
  '255.255.255.255',
]
const address = () => corners[random(corners.length)]!
const network = () => `${address()}/${[0, 1, 2, 8, 24, 25, 31, 32][random(8)]}`
const rules = (): AddressRules => ({
  allow: Array.from({ length: random(6) }, network),
  deny: Array.from({ length: random(6) }, network),
  toGate: (['none', 'web', 'all'] as const)[random(3)]!,
  ...(random(2) === 0 && { webPorts: [8443, 3000].slice(random(2)) }),
})

/** Compares addresses bit by bit, as a reference for the kernel's answer. */
function covers(networks: readonly string[], wanted: string): boolean {
  const bits = (text: string) => addressToNumber(text)!.toString(2).padStart(32, '0')
  return networks.some((one) => {
    const [base = '', prefix = '32'] = one.split('/')
    return bits(base).slice(0, Number(prefix)) === bits(wanted).slice(0, Number(prefix))
  })
}

describe('the table', () => {
  it('matches every address as the allow and deny lists do, also after many changes', async () => {
    const sandboxes = Array.from({ length: 16 }, (_, slot) => ({
      address: subnet.sandbox(slot),
      egress: rules(),
    }))
    let script = load(all(sandboxes))
    for (let round = 0; round < 40; round++) {
      const one = sandboxes[random(16)]!
      const next = { ...one, egress: rules() }
      script += load(changes(table, one, next))
      one.egress = next.egress
    }
    const questions = sandboxes.flatMap((one) =>
      [...corners, numberToAddress(random(2 ** 31))].flatMap((to) =>
        (['allow', 'deny'] as const).map((list) => ({ one, to, list })),
      ),
    )
    for (const { one, to, list } of questions) {
      const set = { allow: 'allowed', deny: 'denied' }[list]
      script += `nft get element ${table} ${set} '{ ${one.address} . ${to} }' >/dev/null 2>&1 && echo 1 || echo 0\n`
    }
    const { stdout } = await inKernel(script)
    const expected = questions.map(({ one, to, list }) => (covers(one.egress[list], to) ? '1' : '0'))
    assert.deepEqual(stdout.trim().split('\n'), expected)
  })

  it('has no element of a sandbox that is gone or has no rules', async () => {
    const one = {
      address: subnet.sandbox(5),
      egress: { allow: ['1.2.3.4'], deny: ['0.0.0.0/0'], toGate: 'all' } as const,
    }
    const quiet = { address: one.address, egress: openRules }
    assert.deepEqual(Object.values(elementsOf(quiet)).flat(), [])
    assert.equal(changes(table, quiet, quiet), '')
    const { stdout } = await inKernel(
      `${load(all([one]))}${load(changes(table, one, quiet))}${load(changes(table, one, quiet))}nft list table ${table}`,
    )
    assert.ok(!stdout.includes(`${one.address} `) && !stdout.includes(`${one.address},`))
  })

  it('has as many rules for many sandboxes as for one', () => {
    const many = Array.from({ length: 500 }, (_, slot) => ({
      address: subnet.sandbox(slot),
      egress: rules(),
    }))
    const lines = (text: string) => text.split('\n').length
    assert.equal(lines(all(many)), lines(all([])))
  })
})
