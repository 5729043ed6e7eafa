/** The simulation finds each fault that is put back in by hand. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { promisify } from 'node:util'
import { mutations } from './mutations/mutations.ts'

const script = join(import.meta.dirname, 'mutations/run-mutation.ts')
/** Each is found far sooner; the rest is for code that changes the course of the seeds. */
const histories = 4000

suite('the simulation finds a fault that is put back in', () => {
  for (const { name, fault } of mutations) {
    test(`${name}: ${fault}`, async (t) => {
      const { stdout } = await promisify(execFile)(process.execPath, [script, name, String(histories)])
      t.diagnostic(stdout.trim())
      assert.match(stdout, /^seed \d+: /)
    })
  }
})
