/** The simulation finds each fault that is put back in by hand. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { promisify } from 'node:util'
import { countOf } from '../support/count-of.ts'
import { knownSeeds } from './mutations/known-seeds.ts'
import { mutations } from './mutations/mutations.ts'

const script = join(import.meta.dirname, 'mutations/run-mutation.ts')
/** Most are found within a few dozen. If one is not found, its profile must make its conditions more frequent. */
const maxHistories = 400
/** `npm run test:long` shows that they are found without, too. */
const triesKnownSeeds = countOf({ short: 1, long: 0 }) > 0

suite('the simulation finds a fault that is put back in', () => {
  for (const { name, fault, histories = maxHistories } of mutations) {
    test(`${name}: ${fault}`, async (t) => {
      const seed = triesKnownSeeds ? knownSeeds[name] : undefined
      const words = [script, name, String(histories), ...(seed === undefined ? [] : [String(seed)])]
      const { stdout } = await promisify(execFile)(process.execPath, words)
      t.diagnostic(stdout.trim())
      assert.match(stdout, /^found in history /)
    })
  }
})
