/** Files through the unmodified Python client, sync and async; `files.test.ts` makes the same requests under gVisor too. */
import { after, before, describe, it } from 'node:test'
import { runPython } from '../support/python.ts'
import { anyIsolation, joinWarren, type Warren } from '../support/warren.ts'

describe('files through the Python client', () => {
  let warren: Warren
  before(async () => {
    warren = await joinWarren(anyIsolation)
  })
  after(() => warren?.stop())

  it('e2b 2.63 writes, reads, sets metadata, lists and watches', () =>
    runPython(warren, '2.63.0', 'files_test.py'))
})
