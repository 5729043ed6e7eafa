/** The unmodified Python clients, both releases, on both runtimes. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { pythonWith } from '../support/python.ts'
import { isolations, startWarren, type Warren } from '../support/warren.ts'

const script = join(import.meta.dirname, 'python/client_test.py')

for (const isolation of isolations) {
  describe(`Python clients, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await startWarren(isolation)
    })
    after(() => warren?.stop())

    for (const version of ['2.63.0', '2.45.1']) {
      it(`e2b ${version} creates, runs, writes, lists, connects, expires`, () => {
        const python = pythonWith(`e2b==${version}`)
        const run = spawnSync(python, [script], {
          env: { ...process.env, ...warren.environment },
          encoding: 'utf8',
          timeout: 300_000,
        })
        assert.equal(run.status, 0, run.stdout + run.stderr)
        assert.match(run.stderr, /Ran \d+ tests/)
      })
    }
  })
}
