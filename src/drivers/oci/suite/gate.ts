/** Tests of which connections the firewall redirects to the gate, and that nobody else reaches the gate. */
import assert from 'node:assert/strict'
import { createSocket, type Socket as Datagrams } from 'node:dgram'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { type AddressRules, openRules } from '../../../core/ports/egress.ts'
import { delay } from '../../../lib/clock.ts'
import type { OciDriverOptions } from '../context/driver-options.ts'
import type { OciBench } from './bench.ts'
import { elsewhere, internet, nameServer, Outside, port, reachFrom } from './outside.ts'

const direct = 'from 203.0.113.1'

export function gateSuite(
  runtime: 'runc' | 'runsc',
  openWith: (changes: Partial<OciDriverOptions>) => Promise<OciBench>,
): void {
  describe(`the way to the gate under ${runtime}`, () => {
    let bench: OciBench
    let outside: Outside
    let handle: DriverHandle
    let proxy: Server
    let names: Server
    let questions: Datagrams
    let talking: Socket | undefined
    const asked: string[] = []
    before(async () => {
      bench = await openWith({ dnsServers: [nameServer] })
      outside = new Outside(bench.options.instance)
      await outside.open()
      handle = await bench.sandbox()
    })
    after(async () => {
      talking?.destroy()
      proxy?.close()
      names?.close()
      questions?.close()
      await outside?.close()
      await bench?.close()
    })

    const limit = (rules: Partial<AddressRules>) =>
      bench.driver.limitEgress(handle, { ...openRules, ...rules })
    const reach = (...targets: string[]) => reachFrom(bench, handle, targets)
    const own = () => bench.driver.endpoint(handle, 0).host

    async function openGate(): Promise<void> {
      const { gateAddress } = bench.driver
      const greeting = (name: string) =>
        createServer((socket) => {
          socket.on('error', () => {})
          socket.end(`${name} ${socket.remoteAddress}`)
        })
      proxy = greeting('proxy').listen(0, gateAddress)
      names = greeting('dns').listen(0, gateAddress)
      await Promise.all([once(proxy, 'listening'), once(names, 'listening')])
      const dns = (names.address() as { port: number }).port
      questions = createSocket('udp4', (message, from) => {
        asked.push(`${message} ${from.address}`)
        questions.send('answer', from.port, from.address)
      })
      questions.bind(dns, gateAddress)
      await once(questions, 'listening')
      await bench.driver.openGate({ proxy: (proxy.address() as { port: number }).port, dns })
    }

    const ask = (text: string, host: string, to: number) => `import socket
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); asking.settimeout(1)
try:
    asking.connect(('${host}', ${to})); asking.send(b'${text}'); print(asking.recv(100).decode())
except OSError as error: print('none')`
    const inside = async (python: string) =>
      (await bench.run(handle, `python3 - <<'END'\n${python}\nEND`)).trim()

    it('leads nowhere while no gate is open', async () => {
      for (const toGate of ['web', 'all'] as const) {
        await limit({ toGate })
        assert.deepEqual(await reach(`${internet}:80`, `${internet}:443`, `${nameServer}:53`), ['', '', ''])
      }
    })

    it('is taken by connections to the web ports and by DNS queries, and by nothing else', async () => {
      await openGate()
      await limit({ toGate: 'web', deny: ['0.0.0.0/0'] })
      const targets = [`${internet}:80`, `${elsewhere}:443`, `${internet}:53`, `${nameServer}:53`]
      const found = await reach(...targets, `${internet}:${port}`)
      assert.deepEqual(found, [...Array(2).fill(`proxy ${own()}`), ...Array(2).fill(`dns ${own()}`), ''])
      assert.equal(await inside(ask('who', nameServer, 53)), 'answer')
      assert.deepEqual(asked.splice(0), [`who ${own()}`])
      assert.equal(await inside(ask('quic', internet, 443)), 'none')
    })

    it('is taken by queries to its name server that the rules would reject, and by none to others', async () => {
      await limit({ deny: ['0.0.0.0/0'] })
      assert.equal(await inside(ask('denied', nameServer, 53)), 'answer')
      assert.deepEqual(asked.splice(0), [`denied ${own()}`])
      assert.deepEqual(await reach(`${nameServer}:53`, `${internet}:80`), [`dns ${own()}`, ''])
      assert.deepEqual(await reach(`${internet}:53`), [''])
      assert.deepEqual([await inside(ask('elsewhere', internet, 53)), asked.length], ['none', 0])
      await limit({ deny: ['0.0.0.0/0'], allow: [internet] })
      assert.deepEqual(await reach(`${internet}:53`, `${internet}:80`), [direct, direct])
      await limit({ deny: [elsewhere] })
      assert.deepEqual(await reach(`${internet}:53`), [direct])
      assert.deepEqual(asked, [])
    })

    it('is taken by connections to a port that a header rule names', async () => {
      await limit({ toGate: 'web', webPorts: [port] })
      assert.deepEqual(await reach(`${internet}:${port}`), [`proxy ${own()}`])
      await limit({ toGate: 'web' })
      assert.deepEqual(await reach(`${internet}:${port}`), [direct])
    })

    it('is not taken by connections to an allowed address, which go there directly', async () => {
      await limit({ toGate: 'web', allow: [internet], deny: ['0.0.0.0/0'] })
      const found = await reach(`${internet}:80`, `${internet}:53`, `${internet}:${port}`, `${elsewhere}:80`)
      assert.deepEqual(found, [direct, direct, direct, `proxy ${own()}`])
    })

    it('leaves other traffic to the address rules, except traffic that would bypass the gate', async () => {
      await limit({ toGate: 'web', deny: [elsewhere] })
      assert.deepEqual(await reach(`${internet}:${port}`, `${elsewhere}:${port}`), [direct, ''])
      await inside(ask('round', internet, 443))
      await inside(ask('past', internet, port))
      await outside.sees(/past/)
      assert.equal(outside.count('round'), 0)
    })

    it('is taken by every TCP connection if the rules send all to the gate, and other traffic is rejected', async () => {
      await limit({ toGate: 'all', allow: [elsewhere] })
      const found = await reach(`${internet}:${port}`, `${elsewhere}:22`, `${nameServer}:53`)
      assert.deepEqual(found, [`proxy ${own()}`, `proxy ${own()}`, `dns ${own()}`])
      await inside(ask('sneaky', internet, port))
      await limit({})
      await inside(ask('open', internet, port))
      await outside.sees(/open/)
      assert.equal(outside.count('sneaky'), 0)
    })

    it('does not lead to closed addresses', async () => {
      for (const toGate of ['web', 'all'] as const) {
        await limit({ toGate })
        assert.deepEqual(await reach('10.231.0.7:80', '169.254.231.7:443'), ['', ''])
      }
    })

    it('is the only one: the gate answers no direct connection from a sandbox, this machine or outside', async () => {
      const { gateAddress } = bench.driver
      const { port: proxyPort } = proxy.address() as { port: number }
      await limit({})
      assert.deepEqual(await reach(`${gateAddress}:${proxyPort}`, `${gateAddress}:80`), ['', ''])
      await limit({ toGate: 'web' })
      assert.deepEqual(await reach(`${gateAddress}:${proxyPort}`), [''])
      assert.equal(await outside.connects(gateAddress, proxyPort), false)
      const socket = connect({ host: gateAddress, port: proxyPort })
      const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException]
      assert.equal(error.code, 'ECONNREFUSED')
    })

    it('ends for open connections when new rules close the gate to the sandbox', async () => {
      proxy.removeAllListeners('connection')
      proxy.on('connection', (socket) => {
        socket.on('error', () => {})
        talking = socket
        const timer = setInterval(() => socket.write('tick\n'), 100)
        socket.on('close', () => clearInterval(timer))
      })
      await limit({ toGate: 'web' })
      const talk = inside(`import socket
peer = socket.create_connection(('${internet}', 80)); peer.settimeout(10)
try:
    while peer.recv(100): pass
    print('ended')
except OSError as error: print(type(error).__name__)`)
      await once(proxy, 'connection')
      await delay(300)
      await limit({ deny: ['0.0.0.0/0'] })
      assert.equal(await talk, 'ConnectionResetError')
    })
  })
}
