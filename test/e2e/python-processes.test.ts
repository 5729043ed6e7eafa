/** Commands and terminals through the unmodified Python client, sync and async; `processes.test.ts` runs them under gVisor too. */
import { after, before, describe, it } from 'node:test'
import { runPython } from '../support/python.ts'
import { anyIsolation, joinWarren, type Warren } from '../support/warren.ts'

describe('processes of the Python client', () => {
  let warren: Warren
  before(async () => {
    warren = await joinWarren(anyIsolation)
  })
  after(() => warren?.stop())

  it('e2b 2.63.0 opens terminals, streams input, waits, kills and joins again', () =>
    runPython(warren, '2.63.0', 'processes_test.py'))
})
