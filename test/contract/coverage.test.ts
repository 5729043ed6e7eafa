import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { coverageFile, coveragePage } from './coverage.ts'

test('docs/api-coverage.md is generated from the tables of the contract', () => {
  const advice = 'Run `bin/node test/contract/coverage.ts` and commit the page.'
  assert.equal(readFileSync(coverageFile, 'utf8'), coveragePage(), advice)
})
