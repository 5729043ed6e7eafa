/** Tests that a sandbox's packets leave from its own address alone, whatever addresses root gives to its link. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { openRules } from '../../../core/ports/egress.ts'
import { addressToNumber, numberToAddress } from '../../../lib/ipv4.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { createLayout } from '../../host/record/layout.ts'
import type { OciBench } from './bench.ts'
import { internet, Outside, port } from './outside.ts'
import type { OciSuite } from './runtimes.ts'

const everything = '0.0.0.0/0'

/** Takes each address in turn, and tries a connection from it and a datagram. Prints the answers to connections. */
const speakAs = (sources: readonly string[], own: string) => `
import socket, struct, subprocess
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def run(*command): subprocess.run(['ip', *command, 'dev', 'eth0'], capture_output=True)
def change(source, verb):
    if source != '${own}': run('addr', verb, source + '/32')
    # Linux connects from another address than a broadcast address.
    run('route', 'del', 'broadcast', source, 'table', 'local')
def connect(source):
    peer = socket.socket(); peer.settimeout(0.3)
    try:
        peer.setsockopt(socket.IPPROTO_IP, 15, 1); peer.bind((source, 0)); peer.connect(('${internet}', ${port}))
        print(source, peer.recv(100))
    except OSError: pass
    peer.close()
def send(source):
    text = ('taken ' + source).encode()
    body = struct.pack('>HHHH', 9, ${port}, 8 + len(text), 0) + text
    head = struct.pack('>BBHHHBBH', 69, 0, 20 + len(body), 1, 0, 64, 17, 0)
    try: raw.sendto(head + socket.inet_aton(source) + socket.inet_aton('${internet}') + body, ('${internet}', 0))
    except OSError: pass
for source in ${JSON.stringify(sources)}:
    change(source, 'add')
    connect(source)
    send(source)
    change(source, 'del')
`

export const ownAddressSuite: OciSuite = (runtime, open) => {
  describe(`the address of a sandbox under ${runtime}`, () => {
    let bench: OciBench
    let outside: Outside
    let mine: DriverHandle
    let theirs: DriverHandle
    before(async () => {
      bench = await open()
      outside = new Outside(bench.options.instance)
      await outside.open()
      mine = await bench.sandbox()
      theirs = await bench.sandbox()
    })
    after(async () => {
      await outside?.close()
      await bench?.close()
    })
    const addressOf = (handle: DriverHandle) => bench.driver.endpoint(handle, 0).host
    const slotOf = (handle: DriverHandle) =>
      (addressToNumber(addressOf(handle))! - addressToNumber(bench.options.subnet.split('/')[0]!)!) >> 2
    const layout = () => createLayout(bench.options.dataFolder, bench.options.instance)
    /** As the host's root in its network, with frames that no program inside can make. */
    const inItsNetwork = (program: string) =>
      runCommand('nsenter', [`--net=${layout().netnsPath(slotOf(mine))}`, 'python3', '-c', program])

    /** As root of the sandbox if it may change its link, otherwise as the host's root in its network. */
    async function asRoot(program: string): Promise<string> {
      if (runtime === 'runsc') return bench.run(mine, `python3 - <<'END'\n${program}\nEND`)
      const { stdout } = await inItsNetwork(program)
      return stdout
    }

    async function assertOnlySender(): Promise<void> {
      const own = addressToNumber(addressOf(mine))!
      const [network, gateway, broadcast] = [-2, -1, 1].map((offset) => numberToAddress(own + offset))
      const others = [network!, gateway!, broadcast!, addressOf(theirs), '192.0.2.7', '203.0.113.9']
      await bench.driver.limitEgress(mine, { ...openRules, deny: [everything] })
      assert.equal(
        await asRoot(speakAs(others, addressOf(mine))),
        '',
        'connections from addresses that are not its own',
      )
      await bench.driver.limitEgress(mine, openRules)
      assert.equal(
        await asRoot(speakAs([...others, addressOf(mine)], addressOf(mine))),
        `${addressOf(mine)} b'from 203.0.113.1'\n`,
      )
      // Datagrams of one program arrive in order: those that have not come before the last one are lost.
      const seen = await outside.sees(new RegExp(`taken ${addressOf(mine)}`))
      assert.deepEqual(new Set(seen.match(/taken .*/g)), new Set([`taken ${addressOf(mine)}`]))
    }

    it('is the only sender of packets that leave, whatever other addresses root gives to its link', () =>
      assertOnlySender())

    it('is the only one that the host answers and remembers on its link, whoever asks for the gateway', async () => {
      const own = addressToNumber(addressOf(mine))!
      const { stdout: answered } = await inItsNetwork(`
import socket, struct
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x806)); link.bind(('eth0', 0x806)); link.settimeout(1)
own = link.getsockname()[4]
for number in range(2000):
    sender = struct.pack('>I', ${own} - 3 + number)
    link.send(b'\\xff' * 6 + own + struct.pack('>HHHBBH', 0x806, 1, 0x800, 6, 4, 1) + own + sender + bytes(6) + struct.pack('>I', ${own - 1}))
try:
    while True:
        data, where = link.recvfrom(100)
        if where[2] != 4 and data[21] == 2: print(socket.inet_ntoa(data[38:42]))
except TimeoutError: pass`)
      assert.equal(answered, `${addressOf(mine)}\n`)
      const { stdout } = await runCommand('ip', ['neighbour', 'show', 'dev', layout().link(slotOf(mine))])
      assert.deepEqual(stdout.match(/^[\d.]+/gm), [addressOf(mine)])
    })

    it('is the only sender too of a sandbox that an earlier release started', async () => {
      const link = layout().link(slotOf(mine))
      const gateway = numberToAddress(addressToNumber(addressOf(mine))! - 1)
      await runCommand('ip', ['address', 'add', `${gateway}/30`, 'dev', link])
      await runCommand('ip', ['address', 'del', `${gateway}/32`, 'dev', link])
      await runCommand('ip', ['route', 'del', addressOf(mine), 'dev', link])
      const open = connect(49983, addressOf(mine))
      await once(open, 'connect')
      await bench.driver.close()
      await bench.driver.open()
      await assertOnlySender()
      open.end('echo still here\n')
      assert.equal((await once(open, 'data')).toString().trim(), 'still here')
    })
  })
}
