/** Commands and terminals through the unmodified Python client, sync and async, on both runtimes. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { pythonWith } from '../support/python.ts'
import { isolations, startWarren, type Warren } from '../support/warren.ts'

const script = join(import.meta.dirname, 'python/processes_test.py')

for (const isolation of isolations) {
  describe(`processes of the Python client, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await startWarren(isolation)
    })
    after(() => warren?.stop())

    it('e2b 2.63.0 opens terminals, streams input, waits, kills and joins again', () => {
      const run = spawnSync(pythonWith('e2b==2.63.0'), [script], {
        env: { ...process.env, ...warren.environment },
        encoding: 'utf8',
        timeout: 300_000,
      })
      assert.equal(run.status, 0, run.stdout + run.stderr)
      assert.match(run.stderr, /Ran \d+ tests/)
    })
  })
}
