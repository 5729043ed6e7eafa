import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'

describe('pruning over the API', () => {
  it('is for the operator alone, and reports the bytes that it freed', async () => {
    await using warren = await openApi()
    const { status, json } = await warren.ask('POST', '/admin/prune', {
      ...warren.asAdmin,
      body: { dryRun: true },
    })
    const none = { count: 0, bytes: 0 }
    const layers = { count: 2, bytes: 3_000_000 }
    const report = { steps: none, savedStates: none, layers, files: none, bytes: 3_000_000 }
    assert.deepEqual([status, json()], [200, { dryRun: true, ...report }])
    const done = await warren.ask('POST', '/admin/prune', { ...warren.asAdmin, body: {} })
    assert.deepEqual(done.json(), { dryRun: false, ...report })
    assert.equal((await warren.ask('POST', '/admin/prune', { body: {} })).status, 401)
  })

  it('is rejected for a misspelt dry-run option', async () => {
    await using warren = await openApi()
    const typo = { ...warren.asAdmin, body: { dryrun: true } }
    assert.equal((await warren.ask('POST', '/admin/prune', typo)).status, 400)
  })
})
