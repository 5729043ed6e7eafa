/** Commands and terminals through the unmodified Python client, sync and async, on both runtimes. */
import { after, before, describe, it } from 'node:test'
import { runPython } from '../support/python.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

for (const isolation of isolations) {
  describe(`processes of the Python client, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    it('e2b 2.63.0 opens terminals, streams input, waits, kills and joins again', () =>
      runPython(warren, '2.63.0', 'processes_test.py'))
  })
}
