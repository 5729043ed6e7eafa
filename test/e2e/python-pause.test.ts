import { after, before, describe, it } from 'node:test'
import { runPython } from '../support/python.ts'
import { pythonReleases } from '../support/releases.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

for (const isolation of isolations) {
  describe(`pausing with the Python clients, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    for (const [version, age] of pythonReleases(isolation, 'differs')) {
      it(`e2b ${version} pauses, resumes, forks and takes snapshots`, () =>
        runPython(warren, version, 'pause.py', age))
    }
  })
}
