import { after, before, describe, it } from 'node:test'
import { runPython } from '../support/python.ts'
import { pythonReleases } from '../support/releases.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

for (const isolation of isolations) {
  describe(`templates with the Python clients, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    for (const [version, age] of pythonReleases(isolation, 'same')) {
      it(`e2b ${version} builds templates, at once and later`, () =>
        runPython(warren, version, 'templates.py', age))
    }
  })
}
