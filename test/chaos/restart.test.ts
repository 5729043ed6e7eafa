/** Warren dies at bad moments; sandboxes, rows and the kernel must agree again after the next start. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { momentsOf } from '../support/count-of.ts'
import { eventually } from '../support/eventually.ts'
import { countTraces, settledTraces } from '../support/traces.ts'
import { isolations, startWarren, type Warren } from '../support/warren.ts'

/** One warm sandbox is enough: a create takes it, the next one is booted, and a crash cuts either short. */
const settings = { WARREN_WARM_SANDBOXES: '1' }
/** Until a create is over. */
const longestMs = { container: 250, gvisor: 500 }

for (const isolation of isolations) {
  describe(`restarts, ${isolation}`, () => {
    let warren: Warren
    after(() => warren?.stop())

    it('a sandbox survives a crash while a command streams, answers again, and still ends at its timeout', async () => {
      warren = await startWarren(isolation, { settings })
      const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      const background = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
      const streaming = sandbox.commands.run('while true; do echo tick; sleep 0.1; done', { timeoutMs: 0 })
      const broken = assert.rejects(streaming)
      await delay(300)
      await warren.crash()
      await broken
      warren = await startWarren(isolation, { keepData: true, settings })
      assert.match(
        readFileSync(warren.logFile, 'utf8'),
        /process \d+\) ended without closing\. The kernel says/,
      )
      const again = await Sandbox.connect(sandbox.sandboxId, warren.client)
      const alive = await again.commands.run(`kill -0 ${background.pid} && echo alive`)
      assert.equal(alive.stdout, 'alive\n')
      await again.setTimeout(2000)
      await warren.crash()
      warren = await startWarren(isolation, { keepData: true, settings })
      await eventually(async () => assert.equal(await again.isRunning(), false))
      const listed = await Sandbox.list(warren.client).nextItems()
      assert.deepEqual(listed, [])
    })

    it('an orderly stop leaves sandboxes running', async () => {
      warren = warren ?? (await startWarren(isolation, { settings }))
      const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      assert.equal(await warren.stop(), 0)
      assert.match(readFileSync(warren.logFile, 'utf8'), /"signal":"SIGINT","msg":"closing".*"msg":"closed"/s)
      warren = await startWarren(isolation, { keepData: true, settings })
      assert.equal((await sandbox.commands.run('echo still here')).stdout, 'still here\n')
      await sandbox.kill()
    })

    it('a create that is cut off at any moment leaves no trace', async () => {
      const clean = await settledTraces(warren.dataFolder)
      for (const afterMs of momentsOf({ short: 3, long: 49 }, longestMs[isolation])) {
        const creating = Sandbox.create('base', { ...warren.client, requestTimeoutMs: 5000 }).catch(
          () => undefined,
        )
        await delay(afterMs)
        await warren.crash()
        await creating
        warren = await startWarren(isolation, { keepData: true, settings })
        for (const left of await Sandbox.list(warren.client).nextItems()) {
          await Sandbox.kill(left.sandboxId, warren.client)
        }
        await eventually(async () =>
          assert.deepEqual(countTraces(warren.dataFolder), clean, `after ${afterMs} ms`),
        )
      }
    })
  })
}
