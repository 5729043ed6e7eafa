/** Tests of egress rules: those of each sandbox, and the ranges that are closed to every sandbox. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, it } from 'node:test'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { type AddressRules, openRules } from '../../../core/ports/egress.ts'
import { isAppError } from '../../../lib/app-error.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { createLayout } from '../../host/record/layout.ts'
import type { OciDriverOptions } from '../context/driver-options.ts'
import type { OciBench } from './bench.ts'
import {
  closed,
  elsewhere,
  internet,
  nameServer,
  Outside,
  port,
  reachFrom,
  talkativePort,
} from './outside.ts'

const everything = '0.0.0.0/0'
/** A closed address in a range that the options of these tests open. */
const opened = '198.18.231.7'

export function egressSuite(
  runtime: 'runc' | 'runsc',
  openWith: (changes: Partial<OciDriverOptions>) => Promise<OciBench>,
): void {
  describe(`the egress of a sandbox under ${runtime}`, () => {
    let bench: OciBench
    let outside: Outside
    let handle: DriverHandle
    before(async () => {
      bench = await openWith({ dnsServers: [nameServer], openedRanges: ['198.18.0.0/15'] })
      outside = new Outside(bench.options.instance)
      await outside.open()
      handle = await bench.sandbox()
    })
    after(async () => {
      await outside?.close()
      await bench?.close()
    })

    const limit = (rules: Partial<AddressRules>) =>
      bench.driver.limitEgress(handle, { ...openRules, ...rules })

    /** Returns the hosts that answer the sandbox. */
    async function answering(from: DriverHandle, ...hosts: string[]): Promise<string[]> {
      const answers = await reachFrom(
        bench,
        from,
        hosts.map((host) => `${host}:${port}`),
      )
      return hosts.filter((_, index) => answers[index] === 'from 203.0.113.1')
    }

    it('reaches every address without rules, except the closed ones', async () => {
      await limit({})
      assert.deepEqual(await answering(handle, internet, elsewhere), [internet, elsewhere])
    })

    it('reaches no denied address or range, and reaches all others', async () => {
      await limit({ deny: [internet] })
      assert.deepEqual(await answering(handle, internet, elsewhere), [elsewhere])
      await limit({ deny: ['198.51.100.128/25'] })
      assert.deepEqual(await answering(handle, internet, elsewhere), [internet])
    })

    it('reaches an allowed address even if a rule denies it', async () => {
      await limit({ allow: [internet], deny: [everything] })
      assert.deepEqual(await answering(handle, internet, elsewhere), [internet])
      await limit({ allow: ['198.51.100.0/24'], deny: [internet, '198.51.100.0/24'] })
      assert.deepEqual(await answering(handle, internet, elsewhere), [internet, elsewhere])
    })

    it('follows ranges that overlap, repeat, or end with the last address of IPv4', async () => {
      await limit({ deny: ['192.0.0.0/2', '198.51.100.0/24', internet, internet, '255.255.255.255/32'] })
      assert.deepEqual(await answering(handle, internet, elsewhere), [])
      await limit({ allow: ['192.0.0.0/2', internet, '198.51.100.1/25'], deny: ['128.0.0.0/1', everything] })
      assert.deepEqual(await answering(handle, internet, elsewhere), [internet, elsewhere])
      await limit({ allow: ['198.51.100.0/29', '198.51.100.8/29'], deny: ['0.0.0.0/1', '128.0.0.0/1'] })
      assert.deepEqual(await answering(handle, internet, elsewhere), [internet])
    })

    it('follows the sandbox’s own rules only, not those of another sandbox', async () => {
      await limit({ deny: [everything] })
      const other = await bench.sandbox({ egress: { ...openRules, deny: [elsewhere] } })
      assert.deepEqual(await answering(other, internet, elsewhere), [internet])
      assert.deepEqual(await answering(handle, internet, elsewhere), [])
      await bench.driver.stop(other)
    })

    it('reaches no closed address even if a rule allows it, unless the operator opened the range', async () => {
      await limit({ allow: [everything, ...closed] })
      assert.deepEqual(await answering(handle, ...closed), [opened])
      await limit({ deny: ['198.18.0.0/16'] })
      assert.deepEqual(await answering(handle, opened, internet), [internet])
    })

    it('lets nothing out if all is denied, not even DNS queries and pings, and the agent still answers', async () => {
      const send = `import socket
for target in (('${internet}', ${port}), ('${nameServer}', 53), ('${internet}', 443)):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'WORD', target)
try:
    echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); echo.settimeout(1)
    echo.sendto(bytes([8, 0, 0, 0, 0, 1, 0, 1]), ('${internet}', 0)); echo.recvfrom(100); print('echo')
except OSError: print('none')`
      await limit({})
      assert.match(await inside(send.replace('WORD', 'open')), /echo/)
      await outside.sees(/open[\s\S]*open[\s\S]*open/)
      await limit({ deny: [everything] })
      assert.match(await inside(send.replace('WORD', 'shut')), /none/)
      await limit({})
      await inside(send.replace('WORD', 'again'))
      await outside.sees(/again[\s\S]*again[\s\S]*again/)
      assert.equal(outside.count('shut'), 0)
    })

    it('tells a program at once that its datagrams are denied, also to a closed address and as DNS', async () => {
      await limit({ deny: [internet] })
      const denied = [`${internet} ${port}`, `${internet} 53`, `${closed[0]} ${port}`]
      const found = await inside(`import socket
for target in '${denied.join(',')}'.split(','):
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); asking.settimeout(60)
    host, to = target.split(); asking.connect((host, int(to))); asking.send(b'hello')
    try: asking.recv(100)
    except OSError as error: print(type(error).__name__)`)
      assert.deepEqual(found.trim().split('\n'), denied.fill('ConnectionRefusedError'))
      assert.equal(outside.count('hello'), 0)
    })

    const inside = (python: string) => bench.run(handle, `python3 - <<'END'\n${python}\nEND`)

    it('resets an open connection at once when new rules deny it', async () => {
      await limit({})
      const silent = longTalk('')
      const chatty = longTalk('peer.sendall(b"x")')
      // Both connections have received data before the rules change.
      await bench.run(handle, 'while [ ! -e /tmp/told- ] || [ ! -e /tmp/told-x ]; do sleep 0.05; done')
      await limit({ allow: [elsewhere], deny: [everything] })
      assert.match(await silent, /ConnectionResetError/)
      assert.match(await chatty, /ConnectionResetError/)
    })

    /** Reads from the server until a read fails, and returns the reason. */
    function longTalk(each: string): Promise<string> {
      return inside(`import socket
peer = socket.create_connection(('${internet}', ${talkativePort})); peer.settimeout(60)
try:
    while peer.recv(100):
        open('/tmp/told-${each && 'x'}', 'w').close()
        ${each || 'pass'}
    print('ended')
except OSError as error: print(type(error).__name__)`)
    }

    it('follows the old rules if the new ones cannot be applied', async () => {
      await limit({ deny: [internet] })
      for (const bad of ['nowhere', '1.2.3.4/33', '::1', '198.51.100.7 ; flush ruleset'])
        await assert.rejects(limit({ deny: [bad] }), (error) => isAppError(error, 'invalid_argument'))
      assert.deepEqual(await answering(handle, internet, elsewhere), [elsewhere])
      await assert.rejects(bench.sandbox({ egress: { ...openRules, allow: ['::/0'] } }), (error) =>
        isAppError(error, 'invalid_argument'),
      )
    })

    it('is unchanged after other sandboxes changed their rules many times at once', async () => {
      await limit({ deny: [elsewhere] })
      const other = await bench.sandbox()
      const some = (number: number) => ({
        ...openRules,
        deny: [`192.0.2.${number}`, `192.0.2.${number + 1}`],
      })
      const changes = Array.from({ length: 20 }, (_, at) => bench.driver.limitEgress(other, some(at)))
      await Promise.all(changes)
      const { stdout } = await listSet(bench, 'denied')
      const address = bench.driver.endpoint(other, 0).host
      assert.deepEqual(stdout.match(new RegExp(`${address} \\. [\\d.-]+`, 'g')), [
        `${address} . 192.0.2.19-192.0.2.20`,
      ])
      await bench.driver.stop(other)
      assert.ok(!(await listSet(bench, 'denied')).stdout.includes(address))
      assert.deepEqual(await answering(handle, internet, elsewhere), [internet])
    })

    it('is restored by the next process after the first one died and somebody flushed the firewall', async () => {
      await bench.driver.stop(handle)
      await bench.driver.close()
      const changes = { egress: { ...openRules, allow: [internet], deny: [everything] } }
      const input = JSON.stringify({
        options: bench.options,
        rootFolder: bench.rootFolder,
        agent: bench.agent,
        changes,
      })
      const child = spawn(process.execPath, [join(import.meta.dirname, 'child.ts'), input], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]()
      assert.equal((await lines.next()).value, 'open')
      handle = JSON.parse((await lines.next()).value as string) as DriverHandle
      child.kill('SIGKILL')
      await once(child, 'exit')
      const { table } = createLayout(bench.options.dataFolder, bench.options.instance)
      await runCommand('nft', ['delete', 'table', 'inet', table])
      await bench.driver.open()
      assert.deepEqual(await answering(handle, internet, elsewhere), [internet])
      await limit({ deny: [internet] })
      assert.deepEqual(await answering(handle, internet, elsewhere), [elsewhere])
    })
  })
}

function listSet(bench: OciBench, set: string): Promise<{ stdout: string }> {
  const { table } = createLayout(bench.options.dataFolder, bench.options.instance)
  return runCommand('nft', ['list', 'set', 'inet', table, set])
}
