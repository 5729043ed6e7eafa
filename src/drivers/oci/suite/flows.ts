/** Tests of the limit on open connections per sandbox. All sandboxes share the machine's connection table. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { OciBench } from './bench.ts'
import { internet, Outside, port, reachFrom, talkativePort } from './outside.ts'
import type { OciSuite } from './runtimes.ts'

const mostFlows = 40

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

export const flowsSuite: OciSuite = (runtime, open) => {
  describe(`the connections of a sandbox under ${runtime}`, () => {
    let bench: OciBench
    let outside: Outside
    before(async () => {
      bench = await open({ mostFlows })
      outside = new Outside(bench.options.instance)
      await outside.open()
    })
    after(async () => {
      await outside?.close()
      await bench?.close()
    })

    it('stop at its share, and a neighbour can open its own meanwhile', async () => {
      const [greedy, neighbour] = [await bench.sandbox(), await bench.sandbox()]
      assert.equal(Number(await bench.run(greedy, openMany)), mostFlows)
      assert.deepEqual(await reachFrom(bench, neighbour, [`${internet}:${port}`]), ['from 203.0.113.1'])
      // A connection beyond the share gets no answer.
      assert.deepEqual(await reachFrom(bench, greedy, [`${internet}:${port}`], 2), [''])
      await bench.driver.stop(neighbour)
      await bench.driver.stop(greedy)
    })
  })
}
