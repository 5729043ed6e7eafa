import { after, before, describe, it } from 'node:test'
import { runPython } from '../support/python.ts'
import { pythonReleases } from '../support/releases.ts'
import { anyIsolation, joinWarren, type Warren } from '../support/warren.ts'

describe('templates with the Python clients', () => {
  let warren: Warren
  before(async () => {
    warren = await joinWarren(anyIsolation)
  })
  after(() => warren?.stop())

  for (const [version, age] of pythonReleases(anyIsolation, 'same')) {
    it(`e2b ${version} builds templates, at once and later`, () =>
      runPython(warren, version, 'templates.py', age))
  }
})
