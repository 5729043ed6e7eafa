/** Builds that an orderly stop finds under way, and templates that change the runtime. */
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { Template, waitForPort } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { sayIn } from '../support/building.ts'
import { anyIsolation, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const settings = noWarmPool

describe('templates over restarts', () => {
  let warren: Warren
  afterEach(() => warren?.stop())

  it('a build in progress at a shutdown ends with that reason', async () => {
    warren = await startWarren(anyIsolation, { settings })
    const sleeping = Template().fromBaseImage().runCmd('sleep 600')
    const begun = await Template.buildInBackground(sleeping, 'shut-down', warren.client)
    await delay(1000)
    assert.equal(await warren.stop(), 0)
    warren = await startWarren(anyIsolation, { keepData: true, settings })
    const { status, reason } = await Template.getBuildStatus(begun, warren.client)
    assert.equal(status, 'error')
    assert.match(reason?.message ?? '', /Warren was (stopped|restarted) while this build was under way/)
  })

  it('a template starts under the other runtime, with its service, and so does one made there', async () => {
    const other = anyIsolation === 'container' ? 'gvisor' : 'container'
    const serving = (name: string) =>
      Template()
        .fromBaseImage()
        .runCmd(`echo ${name} > made`)
        .setEnvs({ MADE: name })
        .setStartCmd('python3 -m http.server 8000', waitForPort(8000))
    const ask = 'cat made; echo $MADE; curl -s localhost:8000/made'
    const plain = Template().fromBaseImage().runCmd('echo plain > made')
    warren = await startWarren(anyIsolation, { settings })
    await Template.build(serving('here'), 'made-here', warren.client)
    await Template.build(plain, 'plain-here', warren.client)
    await warren.stop()
    warren = await startWarren(anyIsolation, {
      keepData: true,
      settings: { ...settings, WARREN_ISOLATION: other },
    })
    assert.equal(await sayIn(warren, 'made-here', ask), 'here\nhere\nhere\n')
    assert.equal(await sayIn(warren, 'plain-here', 'cat made'), 'plain\n')
    await Template.build(serving('there'), 'made-there', warren.client)
    const child = Template().fromTemplate('made-here').runCmd('cat made > child')
    await Template.build(child, 'child-there', warren.client)
    await warren.stop()
    warren = await startWarren(anyIsolation, { keepData: true, settings })
    assert.equal(await sayIn(warren, 'made-there', ask), 'there\nthere\nthere\n')
    assert.equal(await sayIn(warren, 'child-there', 'cat child'), 'here\n')
    await Template.build(
      Template().fromTemplate('made-there').runCmd('cat made > child'),
      'child-here',
      warren.client,
    )
    assert.equal(await sayIn(warren, 'child-here', 'cat child'), 'there\n')
    assert.equal(await sayIn(warren, 'made-here', ask), 'here\nhere\nhere\n')
  })
})
