import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { pythonWith } from '../support/python.ts'
import { isolations, startWarren, type Warren } from '../support/warren.ts'

const script = join(import.meta.dirname, 'python/templates.py')

for (const isolation of isolations) {
  describe(`templates with the Python clients, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await startWarren(isolation)
    })
    after(() => warren?.stop())

    for (const [version, name] of [
      ['2.63.0', 'newest'],
      ['2.45.1', 'older'],
    ] as const) {
      it(`e2b ${version} builds templates, at once and later`, () => {
        const run = spawnSync(pythonWith(`e2b==${version}`), [script, name], {
          env: { ...process.env, ...warren.environment },
          encoding: 'utf8',
          timeout: 240_000,
        })
        assert.equal(run.status, 0, run.stdout + run.stderr)
      })
    }
  })
}
