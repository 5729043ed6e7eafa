/** Tests of the limit on open connections per sandbox. All sandboxes share the machine's connection table. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { countOf } from '../../../../test/support/count-of.ts'
import { eventually } from '../../../../test/support/eventually.ts'
import type { OciBench } from './bench.ts'
import { internet, Outside, port, reachFrom, talkativePort } from './outside.ts'
import type { OciSuite } from './runtimes.ts'

const perSandbox = 40
const perOwner = 50
const all = 70

/** Tries to open many connections at once, prints how many opened, and keeps them open in the background. */
const openMany = `cat > /tmp/open.py <<'END'
import select, socket, sys, time
tried = [socket.socket() for _ in range(200)]
for each in tried:
    each.setblocking(False)
    each.connect_ex(('${internet}', ${talkativePort}))
# Those that were dropped are tried again by the kernel, so there is time for it.
time.sleep(4)
print(sum(each.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0 for each in select.select(tried, [], [], 0)[0]), flush=True)
time.sleep(600)
END
setsid python3 /tmp/open.py </dev/null >/tmp/opened 2>&1 &
while [ ! -s /tmp/opened ]; do sleep 0.05; done; cat /tmp/opened`

const openFlows = 1500
const shortFlows = 50

/** Accepts connections and says nothing, so that nobody ends them. On the next port it closes them at once. */
const silentServer = `
import socket, threading
kept = []
def close(closing):
    while True: closing.accept()[0].close()
threading.Thread(target=close, args=(socket.create_server(('', ${port} + 1), backlog=2000),), daemon=True).start()
server = socket.create_server(('', ${port}), backlog=2000)
print('ready', flush=True)
while True: kept.append(server.accept())
`

/** Opens many connections and keeps them open in the background. */
const openManyFlows = `ulimit -n 4096; cat > /tmp/hold.py <<'END'
import socket, time
kept = [socket.create_connection(('${internet}', ${port})) for _ in range(${openFlows})]
print(len(kept), flush=True)
time.sleep(600)
END
setsid python3 /tmp/hold.py </dev/null >/tmp/held 2>&1 &
while [ ! -s /tmp/held ]; do sleep 0.05; done; cat /tmp/held`

/** The server closes them first, and the client answers. */
const openAndClose = `python3 - <<'END'
import socket
for number in range(${shortFlows}):
    peer = socket.create_connection(('${internet}', ${port} + 1)); peer.recv(1); peer.close()
print(${shortFlows})
END`

export const flowsSuite: OciSuite = (runtime, open) => {
  describe(`the connections of a sandbox under ${runtime}`, () => {
    let bench: OciBench
    let outside: Outside
    before(async () => {
      bench = await open({ flowShares: { perSandbox, perOwner, all } })
      outside = new Outside(bench.options.instance)
      await outside.open()
    })
    after(async () => {
      await outside?.close()
      await bench?.close()
    })

    it('stop at its share, and a neighbour can open its own meanwhile', async () => {
      const [greedy, neighbour] = [await bench.sandbox(), await bench.sandbox()]
      assert.equal(Number(await bench.run(greedy, openMany)), perSandbox)
      assert.deepEqual(await reachFrom(bench, neighbour, [`${internet}:${port}`]), ['from 203.0.113.1'])
      // A connection beyond the share gets no answer.
      assert.deepEqual(await reachFrom(bench, greedy, [`${internet}:${port}`], 2), [''])
      await bench.driver.stop(neighbour)
      await bench.driver.stop(greedy)
    })

    it('stop together at the share of their owner, and at that of all; another owner’s new sandbox opens its own', async () => {
      const owners = new Map<string, string>()
      const start = async (owner: string) => {
        const handle = await bench.sandbox()
        owners.set(String(handle.data.sandboxID), owner)
        await bench.driver.shareConnections(async () => owners)
        return handle
      }
      const [first, second] = [await start('one'), await start('one')]
      assert.equal(Number(await bench.run(first, openMany)), perSandbox)
      assert.equal(Number(await bench.run(second, openMany)), perOwner - perSandbox)
      const neighbour = await start('two')
      assert.deepEqual(await reachFrom(bench, neighbour, [`${internet}:${port}`]), ['from 203.0.113.1'])
      const use = await bench.driver.connectionUse()
      const counts = new Map(use!.sandboxes.map(({ sandboxID, count }) => [sandboxID, count]))
      assert.ok(counts.get(String(first.data.sandboxID))! >= perSandbox)
      // The rest of the table stays the machine's.
      assert.equal(Number(await bench.run(neighbour, openMany)), all - perOwner)
      for (const handle of [first, second, neighbour]) await bench.driver.stop(handle)
    })
  })

  describe(`the connections of an ended sandbox under ${runtime}`, () => {
    let bench: OciBench
    let outside: Outside
    before(async () => {
      bench = await open({ poolSize: 1 })
      outside = new Outside(bench.options.instance, silentServer)
      await outside.open()
    })
    after(async () => {
      await outside?.close()
      await bench?.close()
    })

    it('are remembered for seconds after they were closed, so that short ones do not fill the table', async () => {
      const handle = await bench.sandbox()
      const { host } = bench.driver.endpoint(handle, 0)
      assert.equal((await bench.run(handle, openAndClose)).trim(), String(shortFlows))
      // Behind the state stands who opened the connection.
      const closed = linesOf(host).filter((line) =>
        ['TIME_WAIT', 'CLOSE'].some((state) => line.includes(` ${state} src=${host} `)),
      )
      assert.ok(closed.length > 0)
      // Without a rule of ours the kernel remembers them for two minutes.
      const seconds = closed.map((line) => Number(line.split(/ +/)[4]))
      assert.ok(Math.max(...seconds) <= 10, `${Math.max(...seconds)} seconds`)
      await bench.driver.stop(handle)
    })

    it('are gone from the machine’s table, those that it opened and those to it', async () => {
      for (let round = 0; round < countOf({ short: 2, long: 64 }); round++) {
        const handle = await bench.sandbox()
        const { host } = bench.driver.endpoint(handle, 0)
        assert.equal((await bench.run(handle, openManyFlows)).trim(), String(openFlows))
        assert.ok(flowsOf(host) > openFlows, `${flowsOf(host)} connections while it runs`)
        await bench.driver.stop(handle)
        await eventually(() => assert.equal(flowsOf(host), 0))
      }
    })
  })
}

/** Connections in the machine's table that an address opened, or that lead to it. */
const linesOf = (address: string): string[] =>
  readFileSync('/proc/net/nf_conntrack', 'utf8')
    .split('\n')
    .filter((line) => `${line} `.includes(`=${address} `))
const flowsOf = (address: string): number => linesOf(address).length
