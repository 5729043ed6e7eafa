/** Files through the unmodified Python client, sync and async, on both runtimes. */
import { after, before, describe, it } from 'node:test'
import { runPython } from '../support/python.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

for (const isolation of isolations) {
  describe(`files through the Python client, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    it('e2b 2.63 writes, reads, sets metadata, lists and watches', () =>
      runPython(warren, '2.63.0', 'files_test.py'))
  })
}
