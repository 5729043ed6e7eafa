/** Builds that Warren's death cuts short. */
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { Template } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { buildsOf, sayIn } from '../support/building.ts'
import { momentsOf } from '../support/count-of.ts'
import { settledTraces } from '../support/traces.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const settings = noWarmPool

for (const isolation of isolations) {
  describe(`interrupted builds, ${isolation}`, () => {
    let warren: Warren
    afterEach(() => warren?.stop())

    it('an interrupted build is an error, leaves nothing behind, and can be repeated', async () => {
      warren = await startWarren(isolation, { settings })
      // The first sandbox makes what stays for the next.
      await sayIn(warren, 'base', 'true')
      const empty = await settledTraces(warren.dataFolder)
      const template = (seconds: number) =>
        Template().fromBaseImage().runCmd('echo first > first').runCmd(`sleep ${seconds}; echo done > done`)
      const crashes = momentsOf({ short: 2, long: 49 }, 2000)
      for (const waitMs of crashes) {
        const begun = await Template.buildInBackground(template(600), 'cut-short', warren.client)
        await delay(waitMs)
        await warren.crash()
        warren = await startWarren(isolation, { keepData: true, settings })
        const status = await Template.getBuildStatus(begun, warren.client)
        assert.equal(status.status, 'error')
        assert.match(status.reason?.message ?? '', /^Warren was restarted, .* while this build was under way/)
      }
      const left = await settledTraces(warren.dataFolder)
      // What a finished step left for the next build may stay.
      assert.ok(left.files - empty.files <= 1, JSON.stringify({ empty, left }))
      assert.deepEqual({ ...left, files: 0 }, { ...empty, files: 0 })
      await Template.build(template(0), 'cut-short', warren.client)
      assert.equal(await sayIn(warren, 'cut-short', 'cat first done'), 'first\ndone\n')
      const builds = await buildsOf(warren, 'cut-short')
      assert.deepEqual(
        builds.map(({ status }) => status),
        ['ready', ...Array(crashes.length).fill('error')],
      )
      assert.equal((await warren.api('/templates/cut-short', { method: 'DELETE' })).status, 204)
    })
  })
}
