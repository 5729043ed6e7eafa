import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, suite, test } from 'node:test'
import { isAppError } from '../../../lib/app-error.ts'
import { claimSnapshot, readClaim, releaseClaim } from './snapshot-claim.ts'

suite('the claim on a snapshot', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'warren-saved-'))
  })
  afterEach(() => rm(folder, { recursive: true }))

  test('goes to one of many callers at once, and names its holder', async () => {
    const takers = Array.from({ length: 10 }, (_, at) => ({ sandboxID: `s${at}`, runID: `run-${at}` }))
    const asked = await Promise.allSettled(takers.map((taker) => claimSnapshot(folder, taker)))
    const won = asked.findIndex(({ status }) => status === 'fulfilled')
    for (const [at, one] of asked.entries()) {
      if (at !== won) assert.ok(one.status === 'rejected' && isAppError(one.reason, 'conflict'))
    }
    assert.deepEqual(await readClaim(folder), takers[won])
    assert.equal((await readdir(folder)).length, 1)
  })

  test('is free again once it is given back', async () => {
    await claimSnapshot(folder, { sandboxID: 'one', runID: 'first' })
    await releaseClaim(folder)
    assert.equal(await readClaim(folder), undefined)
    await claimSnapshot(folder, { sandboxID: 'two', runID: 'second' })
    assert.deepEqual(await readClaim(folder), { sandboxID: 'two', runID: 'second' })
  })
})
