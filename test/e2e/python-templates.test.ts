import { after, before, describe, it } from 'node:test'
import { runPython } from '../support/python.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

for (const isolation of isolations) {
  describe(`templates with the Python clients, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    for (const [version, name] of [
      ['2.63.0', 'newest'],
      ['2.45.1', 'older'],
    ] as const) {
      it(`e2b ${version} builds templates, at once and later`, () =>
        runPython(warren, version, 'templates.py', name))
    }
  })
}
