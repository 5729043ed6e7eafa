/** The logs of sandboxes while Warren is down. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { eventually } from '../support/eventually.ts'
import { messages, readLog } from '../support/read-log.ts'
import { anyIsolation, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

describe('logs through restarts', () => {
  let warren: Warren
  before(async () => {
    warren = await startWarren(anyIsolation, { settings: noWarmPool })
  })
  after(() => warren?.stop())

  it('lose and repeat nothing when Warren stops, and when it crashes', async () => {
    const own = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
    const count = 'for i in $(seq 1 400); do echo "number $i"; sleep 0.03; done'
    const counting = await own.commands.run(count, { background: true, timeoutMs: 0 })
    await counting.disconnect()
    await delay(1000)
    await warren.stop()
    await delay(500)
    warren = await startWarren(anyIsolation, { keepData: true, settings: noWarmPool })
    await delay(1000)
    await warren.crash()
    warren = await startWarren(anyIsolation, { keepData: true, settings: noWarmPool })
    await eventually(async () => {
      const last = messages(await readLog(warren, own.sandboxId)).at(-1)
      assert.equal(last, 'Process ended: exit status 0')
    })
    const ownMessages = (await readLog(warren, own.sandboxId))
      .filter(({ fields }) => fields.event_type === 'stdout')
      .flatMap(({ message }) => message.split('\n'))
    assert.deepEqual(
      ownMessages,
      Array.from({ length: 400 }, (_, i) => `number ${i + 1}`),
    )
    const again = await Sandbox.connect(own.sandboxId, warren.client)
    await again.kill()
  })
})
