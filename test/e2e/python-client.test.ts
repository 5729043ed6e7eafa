/** The unmodified Python clients, both releases, on both runtimes. */
import { after, before, describe, it } from 'node:test'
import { runPython } from '../support/python.ts'
import { pythonReleases } from '../support/releases.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

for (const isolation of isolations) {
  describe(`Python clients, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    for (const [version] of pythonReleases(isolation, 'same')) {
      it(`e2b ${version} creates, runs, writes, lists, connects, expires`, () =>
        runPython(warren, version, 'client_test.py'))
    }
  })
}
