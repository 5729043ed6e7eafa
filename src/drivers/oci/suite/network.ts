/** Tests of where a sandbox's packets go. A network namespace stands for the outside, so nothing leaves the machine. */
import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:net'
import { networkInterfaces } from 'node:os'
import { after, before, describe, it } from 'node:test'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { openRules } from '../../../core/ports/egress.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { parseSubnet } from '../../host/network/addresses.ts'
import { createLayout } from '../../host/record/layout.ts'
import type { OciDriverOptions } from '../context/driver-options.ts'
import type { OciBench } from './bench.ts'
import { closed, internet, nameServer, Outside, port, reachFrom } from './outside.ts'

export function networkSuite(
  runtime: 'runc' | 'runsc',
  openWith: (changes: Partial<OciDriverOptions>) => Promise<OciBench>,
): void {
  describe(`the network of a sandbox under ${runtime}`, () => {
    let bench: OciBench
    let outside: Outside
    let hostServer: Server
    let online: DriverHandle
    let offline: DriverHandle
    before(async () => {
      bench = await openWith({ dnsServers: [nameServer] })
      outside = new Outside(bench.options.instance)
      await outside.open()
      hostServer = createServer((socket) => socket.end('the host')).listen(0, '0.0.0.0')
      online = await bench.sandbox()
      offline = await bench.sandbox({ egress: { ...openRules, deny: ['0.0.0.0/0'] } })
    })
    after(async () => {
      hostServer?.close()
      await outside?.close()
      await bench?.close()
    })

    const reach = (handle: DriverHandle, targets: string[]) => reachFrom(bench, handle, targets)
    const subnet = () => parseSubnet(bench.options.subnet)
    const slotOf = (handle: DriverHandle) =>
      [...Array(subnet().capacity).keys()].find((slot) => subnet().sandbox(slot) === handle.data.address)!
    const gatewayOf = (handle: DriverHandle) => subnet().gateway(slotOf(handle))

    it('the internet is reached from the host’s address', async () => {
      assert.deepEqual(await reach(online, [`${internet}:${port}`]), ['from 203.0.113.1'])
    })

    it('private, link-local, shared and reserved ranges are closed, whatever routes the host has', async () => {
      const answers = await reach(
        online,
        closed.map((address) => `${address}:${port}`),
      )
      assert.deepEqual(
        answers,
        closed.map(() => ''),
      )
    })

    it('a private name server is open for DNS queries and nothing else', async () => {
      assert.deepEqual(await reach(online, [`${nameServer}:53`, `${nameServer}:${port}`]), [
        'from 203.0.113.1',
        '',
      ])
      assert.match(
        await bench.run(online, 'cat /etc/resolv.conf'),
        new RegExp(`^nameserver ${nameServer}$`, 'm'),
      )
    })

    it('the host answers on none of its addresses', async () => {
      const { port: hostPort } = hostServer.address() as { port: number }
      const others = Object.entries(networkInterfaces()).filter(([name]) => !/^w[0-9a-z]{6}\d+$/.test(name))
      const addresses = others.flatMap(([, all]) =>
        all!.filter(({ family }) => family === 'IPv4').map(({ address }) => address),
      )
      addresses.push(gatewayOf(online), gatewayOf(offline), '0.0.0.0')
      const answers = await reach(
        online,
        addresses.map((address) => `${address}:${hostPort}`),
      )
      assert.deepEqual(
        answers,
        addresses.map(() => ''),
      )
    })

    it('the hosts on the machine’s own links are closed', async () => {
      assert.deepEqual(await reach(online, [`203.0.113.2:${port}`]), [''])
    })

    it('sandboxes do not reach each other', async () => {
      const neighbour = await bench.sandbox()
      const listen = `setsid python3 - >/tmp/ready 2>&1 <<'END' &
import socket
listening = socket.create_server(('', ${port})); print('ready', flush=True)
while True:
    client, _ = listening.accept(); client.sendall(b'the neighbour'); client.close()
END
while ! grep -q ready /tmp/ready; do sleep 0.1; done`
      await bench.run(neighbour, listen)
      const target = `${bench.driver.endpoint(neighbour, 0).host}:${port}`
      assert.deepEqual(await reach(neighbour, [target]), ['the neighbour'])
      assert.deepEqual(await reach(online, [target]), [''])
      await bench.driver.stop(neighbour)
    })

    it('without internet nothing leaves, not even a DNS query, and the agent still answers', async () => {
      assert.deepEqual(await reach(offline, [`${internet}:${port}`, `${nameServer}:53`]), ['', ''])
      assert.equal((await bench.run(offline, 'echo here')).trim(), 'here')
    })

    it('nobody outside can open a connection to a sandbox', async () => {
      const { host } = bench.driver.endpoint(online, 0)
      assert.equal(await outside.connects(host, 49983), false)
    })

    it('there is no IPv6 on its link', async () => {
      assert.doesNotMatch(await bench.run(online, 'cat /proc/net/if_inet6 2>/dev/null'), /eth0/)
    })

    // gVisor reserves low ports for root, whose capabilities suffice there.
    if (runtime === 'runc')
      it('low ports and pings need no network capability', async () => {
        const script = `useradd -m pinger 2>/dev/null
su pinger -c "python3 -c 'import socket; socket.create_server((\\"\\", 80)); print(\\"bound\\")'"
python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); print("ping")'`
        assert.equal((await bench.run(online, script)).trim(), 'bound\nping')
      })

    // gVisor has moved the namespace's address into its own network stack, so no other program can send from there.
    if (runtime === 'runc')
      it('packets with another sender’s address go nowhere', async () => {
        // No program inside can forge such a packet, so the test sends it as the host's root in the sandbox's namespace.
        const forged = subnet().sandbox(40)
        const script = `
import socket
for source, text in (('${forged}', 'forged'), ('', 'honest')):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_IP, 19, 1)
    sender.bind((source, 0)); sender.sendto(text.encode(), ('${internet}', ${port}))`
        const layout = createLayout(bench.options.dataFolder, bench.options.instance)
        await runCommand('nsenter', [`--net=${layout.netnsPath(slotOf(online))}`, 'python3', '-c', script])
        assert.doesNotMatch(await outside.sees(/honest/), /forged/)
      })

    if (runtime === 'runc')
      it('frames that claim another’s address, or carry a VLAN tag, change nothing', async () => {
        const other = bench.driver.endpoint(offline, 0).host
        const script = `
import socket, struct
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); link.bind(('eth0', 0))
own = link.getsockname()[4]
everyone = b'\\xff' * 6
for claimed in ('${other}', '${gatewayOf(offline)}', '${gatewayOf(online)}'):
    address = socket.inet_aton(claimed)
    for operation in (1, 2):
        link.send(everyone + own + struct.pack('>HHHBBH', 0x806, 1, 0x800, 6, 4, operation) + own + address + everyone + address)
def datagram(text, source):
    body = struct.pack('>HHHH', 9, ${port}, 8 + len(text), 0) + text
    head = struct.pack('>BBHHHBBH4s4s', 69, 0, 20 + len(body), 1, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton('${internet}'))
    total = sum(struct.unpack('>10H', head)); total = (total >> 16) + (total & 65535); total += total >> 16
    return head[:10] + struct.pack('>H', ~total & 65535) + head[12:] + body
gateway = bytes.fromhex(open('/proc/net/arp').read().split('\\n')[1].split()[3].replace(':', ''))
source = '${bench.driver.endpoint(online, 0).host}'
link.send(gateway + own + struct.pack('>HHH', 0x8100, 7, 0x800) + datagram(b'tagged', source))
link.send(gateway + own + struct.pack('>H', 0x800) + datagram(b'as-other', '${other}'))
link.send(gateway + own + struct.pack('>H', 0x800) + datagram(b'plain', source))`
        const layout = createLayout(bench.options.dataFolder, bench.options.instance)
        assert.equal((await reach(online, [`${internet}:${port}`]))[0], 'from 203.0.113.1')
        await runCommand('nsenter', [`--net=${layout.netnsPath(slotOf(online))}`, 'python3', '-c', script])
        assert.doesNotMatch(await outside.sees(/plain/), /tagged|as-other/)
        assert.match(
          await bench.run(offline, 'hostname -I'),
          new RegExp(`^${other.replaceAll('.', '\\.')}\\b`),
        )
        assert.deepEqual(await reach(online, [`${internet}:${port}`]), ['from 203.0.113.1'])
      })

    it('an address is used again only after all others', async () => {
      const first = await bench.sandbox()
      await bench.driver.stop(first)
      const second = await bench.sandbox()
      assert.notEqual(bench.driver.endpoint(second, 0).host, bench.driver.endpoint(first, 0).host)
      await bench.driver.stop(second)
    })
  })
}
