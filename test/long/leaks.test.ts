/** A thousand lives later the machine looks as it did before the first. After a few, chaos/soak.test.ts shows it. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { eventually } from '../support/eventually.ts'
import { countTraces, settledTraces } from '../support/traces.ts'
import { isolations, startWarren, type Warren } from '../support/warren.ts'

const cycles = 1000
const atOnce = 4
/** The warm pool is always of the same size: two sandboxes of the base template. */
const settings = { WARREN_WARM_MEMORY_MB: '2048' }

for (const isolation of isolations) {
  describe(`leaks, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await startWarren(isolation, { settings })
    })
    after(() => warren?.stop())

    it(`${cycles} sandboxes created and killed leave the counts as they were`, {
      timeout: 3_600_000,
    }, async () => {
      await liveOnce(warren)
      const clean = await settledTraces(warren.dataFolder)
      let left = cycles
      const worker = async () => {
        while (left-- > 0) await liveOnce(warren)
      }
      await Promise.all(Array.from({ length: atOnce }, worker))
      await eventually(() => assert.deepEqual(countTraces(warren.dataFolder), clean))
    })
  })
}

async function liveOnce(warren: Warren): Promise<void> {
  const sandbox = await Sandbox.create('base', warren.client)
  assert.equal((await sandbox.commands.run('echo hi')).stdout, 'hi\n')
  assert.equal(await sandbox.kill(), true)
}
