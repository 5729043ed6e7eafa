/** Where a sandbox's packets go and where they do not. The outside is a namespace of ours; nothing leaves the machine. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { createServer, type Server } from 'node:net'
import { networkInterfaces } from 'node:os'
import { after, before, describe, it } from 'node:test'
import type { DriverHandle } from '../../core/driver.ts'
import { runCommand } from '../../lib/run-command.ts'
import { parseSubnet } from './addresses.ts'
import { createLayout } from './layout.ts'
import type { OciBench } from './suite-bench.ts'

/** For documentation only, so it is nobody's: stands for the internet. */
const internet = '198.51.100.7'
const nameServer = '172.31.231.53'
const closed = [
  '10.231.0.7',
  '100.100.231.7',
  '169.254.231.7',
  '172.31.231.7',
  '192.168.231.7',
  '198.18.231.7',
]
const port = 7777

/** Answers everybody on two ports and prints whoever speaks to it over UDP. */
const outsideServer = `
import socket, threading
def serve(port):
    server = socket.create_server(('', port))
    while True:
        client, peer = server.accept()
        client.sendall(('from ' + peer[0]).encode()); client.close()
for port in (${port}, 53): threading.Thread(target=serve, args=(port,)).start()
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); datagrams.bind(('', ${port}))
print('ready', flush=True)
while True:
    data, peer = datagrams.recvfrom(100); print(peer[0], data.decode(), flush=True)
`

class Outside {
  readonly #netns: string
  readonly #link: string
  #server: ChildProcess | undefined
  #printed = ''

  constructor(instance: string) {
    this.#netns = `outside-${instance}`
    this.#link = `o${instance}`
  }

  async open(): Promise<void> {
    const addresses = [internet, nameServer, ...closed]
    const link = this.#link
    const batch = [
      `netns add ${this.#netns}`,
      `link add ${link} type veth peer name eth0 netns ${this.#netns}`,
      `address add 203.0.113.1/30 dev ${link}`,
      `link set ${link} up`,
    ]
    await runCommand('ip', ['-batch', '-'], { input: batch.join('\n') })
    const inside = [
      'link set lo up',
      'address add 203.0.113.2/30 dev eth0',
      'link set eth0 up',
      'route add default via 203.0.113.1',
    ]
    const own = addresses.map((address) => `address add ${address}/32 dev lo`)
    await runCommand('ip', ['-n', this.#netns, '-batch', '-'], { input: [...inside, ...own].join('\n') })
    const routes = addresses.map((address) => `route add ${address}/32 via 203.0.113.2`)
    await runCommand('ip', ['-batch', '-'], { input: routes.join('\n') })
    this.#server = spawn('nsenter', [`--net=/run/netns/${this.#netns}`, 'python3', '-c', outsideServer])
    this.#server.stdout!.on('data', (chunk) => {
      this.#printed += chunk
    })
    await this.sees(/ready/)
  }

  async sees(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.#printed)) {
      await new Promise((resolve, reject) => {
        this.#server!.stdout!.once('data', resolve)
        this.#server!.once('exit', () => reject(new Error(`the outside ended; it saw: ${this.#printed}`)))
      })
    }
    return this.#printed
  }

  async connects(host: string, to: number): Promise<boolean> {
    const script = `timeout 1 bash -c 'exec 3<>/dev/tcp/${host}/${to}'`
    return runCommand('nsenter', [`--net=/run/netns/${this.#netns}`, 'bash', '-c', script]).then(
      () => true,
      () => false,
    )
  }

  async close(): Promise<void> {
    this.#server?.kill('SIGKILL')
    await runCommand('ip', ['link', 'del', this.#link]).catch(() => {})
    await runCommand('ip', ['netns', 'del', this.#netns]).catch(() => {})
  }
}

export function networkSuite(
  runtime: 'runc' | 'runsc',
  openWith: (dnsServers: string[]) => Promise<OciBench>,
): void {
  describe(`the network of a sandbox under ${runtime}`, () => {
    let bench: OciBench
    let outside: Outside
    let hostServer: Server
    let online: DriverHandle
    let offline: DriverHandle
    before(async () => {
      bench = await openWith([nameServer])
      outside = new Outside(bench.options.instance)
      await outside.open()
      hostServer = createServer((socket) => socket.end('the host')).listen(0, '0.0.0.0')
      online = await bench.sandbox()
      offline = await bench.sandbox({ internet: false })
    })
    after(async () => {
      hostServer?.close()
      await outside?.close()
      await bench?.close()
    })

    /** For each target what came back, or nothing. All at once: a target that keeps quiet costs a second. */
    async function reach(handle: DriverHandle, targets: string[]): Promise<string[]> {
      const one = (target: string) =>
        `(answer=$(timeout 1 bash -c 'exec 3<>/dev/tcp/${target.replace(':', '/')} && head -c 100 <&3' 2>/dev/null); echo "${target} $answer") &`
      const output = await bench.run(handle, `${targets.map(one).join('\n')}\nwait`)
      const answers = new Map(
        output
          .trim()
          .split('\n')
          .map((line) => [line.split(' ')[0], line.split(' ').slice(1).join(' ')]),
      )
      return targets.map((target) => answers.get(target) ?? 'not tried')
    }

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

    it('a private name server is open for questions and nothing else', async () => {
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

    it('the neighbours of the host on its own links are closed', async () => {
      assert.deepEqual(await reach(online, [`203.0.113.2:${port}`]), [''])
    })

    it('sandboxes do not reach each other', async () => {
      const { host } = bench.driver.endpoint(offline, 0)
      assert.deepEqual(await reach(online, [`${host}:49983`]), [''])
    })

    it('without internet nothing leaves, not even a question for a name, and the agent still answers', async () => {
      assert.deepEqual(await reach(offline, [`${internet}:${port}`, `${nameServer}:53`]), ['', ''])
      assert.equal((await bench.run(offline, 'echo here')).trim(), 'here')
    })

    it('nobody outside can begin a conversation with a sandbox', async () => {
      const { host } = bench.driver.endpoint(online, 0)
      assert.equal(await outside.connects(host, 49983), false)
    })

    it('there is no IPv6 on its link', async () => {
      assert.doesNotMatch(await bench.run(online, 'cat /proc/net/if_inet6 2>/dev/null'), /eth0/)
    })

    // gVisor keeps low ports for root, whose capabilities are enough there.
    if (runtime === 'runc')
      it('low ports and pings need no power over the network', async () => {
        const script = `useradd -m pinger 2>/dev/null
su pinger -c "python3 -c 'import socket; socket.create_server((\\"\\", 80)); print(\\"bound\\")'"
python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); print("ping")'`
        assert.equal((await bench.run(online, script)).trim(), 'bound\nping')
      })

    // gVisor has taken the namespace's address for itself, so nobody else can send from there at all.
    if (runtime === 'runc')
      it('packets with another sender’s address go nowhere', async () => {
        // No program inside can forge one: it takes root of the host in the sandbox's own namespace.
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

    it('an address comes back into use only after the others', async () => {
      const first = await bench.sandbox()
      await bench.driver.stop(first)
      const second = await bench.sandbox()
      assert.notEqual(bench.driver.endpoint(second, 0).host, bench.driver.endpoint(first, 0).host)
      await bench.driver.stop(second)
    })
  })
}
