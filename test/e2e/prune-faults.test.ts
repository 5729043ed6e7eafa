/** A prune that a kill cuts off, layers that somebody took away, and a disk that is nearly full. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { Sandbox, Template } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { sayIn } from '../support/building.ts'
import { momentsOf } from '../support/count-of.ts'
import { type LayeredImages, layersOf, makeLayeredImages } from '../support/layered-images.ts'
import { anyIsolation, startWarren, type Warren } from '../support/warren.ts'

const isOne = (layer: string) => {
  const file = join(layer, 'root/many/3/7')
  return existsSync(file) && readFileSync(file, 'utf8') === 'one'
}
const savedOf = (warren: Warren) => readdirSync(join(warren.dataFolder, 'saved'))

describe('pruning', () => {
  let images: LayeredImages
  let warren: Warren
  before(async () => {
    images = await makeLayeredImages()
  })
  after(() => images?.remove())
  afterEach(() => warren?.stop())

  it('leaves nothing half done if it is cut off, and no remains after the next start', async () => {
    warren = await startWarren(anyIsolation, { settings: images.settings })
    const build = (image: string, name: string) =>
      Template.build(Template().fromImage(image).runCmd('echo made > made'), name, warren.client)
    await build('one:1', 'kept')
    for (const waitMs of momentsOf({ short: 1, long: 10 }, 40)) {
      await build('two:1', 'gone')
      assert.equal((await warren.api('/templates/gone', { method: 'DELETE' })).status, 204)
      // A layer that was asked for a moment ago is not pruned; after a start, nobody has asked.
      await warren.stop()
      warren = await startWarren(anyIsolation, { keepData: true, settings: images.settings })
      const asOperator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
      const cutOff = warren.api('/admin/prune', { ...asOperator, body: {} }).catch(() => {})
      await delay(waitMs)
      await warren.crash()
      await cutOff
      warren = await startWarren(anyIsolation, { keepData: true, settings: images.settings })
      assert.deepEqual(
        layersOf(warren).filter((name) => !/^[0-9a-f]{64}$/.test(name)),
        [],
      )
      assert.deepEqual(
        savedOf(warren).filter((name) => name.includes('.')),
        [],
      )
      await build('two:1', 'again')
      assert.equal(await sayIn(warren, 'again', 'ls /many/*/* | wc -l; cat made'), '2000\nmade\n')
      assert.equal(await sayIn(warren, 'kept', 'cat made /many/3/7'), 'made\none')
      assert.equal((await warren.api('/templates/again', { method: 'DELETE' })).status, 204)
    }
  })

  it('is not the same as a layer removed by hand, which is reported at the start, and to a request that needs it', async () => {
    warren = await startWarren(anyIsolation, { settings: images.settings })
    await Template.build(Template().fromImage('one:1').runCmd('true'), 'robbed', warren.client)
    await Template.build(Template().fromImage('two:1').runCmd('true'), 'whole', warren.client)
    await warren.stop()
    const layers = join(warren.dataFolder, 'images/layers')
    // Not compressed, so it has the same digest in the image.
    const own = layersOf(warren).filter((name) => existsSync(join(images.layout, 'blobs/sha256', name)))
    const robbed = own.find((name) => isOne(join(layers, name)))!
    rmSync(join(layers, robbed), { recursive: true })
    warren = await startWarren(anyIsolation, { keepData: true, settings: images.settings })
    assert.match(readFileSync(warren.logFile, 'utf8'), /1 image layers that templates stand on are not on/)
    const refused = Sandbox.create('robbed', warren.client)
    await assert.rejects(refused, /layer \S+ is not on this machine\. Build the template again/)
    const child = Template().fromTemplate('robbed').runCmd('true')
    await assert.rejects(Template.build(child, 'child', warren.client), /does not exist any more/)
    assert.equal(await sayIn(warren, 'whole', 'cat /many/3/7'), 'two')
    await Template.build(Template().fromImage('one:1').runCmd('true'), 'robbed', warren.client)
    assert.equal(await sayIn(warren, 'robbed', 'cat /many/3/7'), 'one')
  })

  it('runs automatically when the disk is nearly full, and builds are rejected if that does not help', async () => {
    warren = await startWarren(anyIsolation, { settings: images.settings })
    const template = Template().fromImage('one:1').runCmd('echo a > a').runCmd('echo b > b')
    await Template.build(template, 'kept', warren.client)
    const before = savedOf(warren).length
    await warren.stop()
    const short = { ...images.settings, WARREN_MIN_FREE_DISK_MB: '1073741824' }
    warren = await startWarren(anyIsolation, { keepData: true, settings: short })
    const refused = Template.build(template, 'more', warren.client)
    await assert.rejects(refused, /too little disk space.*WARREN_MIN_FREE_DISK_MB/s)
    assert.equal(before - savedOf(warren).length, 2)
    const log = readFileSync(warren.logFile, 'utf8')
    assert.match(log, /the disk is nearly full: removed 2 cached steps/)
    assert.match(log, /pruning does not help: new builds are rejected/)
    assert.equal(await sayIn(warren, 'kept', 'cat a b'), 'a\nb\n')
    await warren.stop()
    warren = await startWarren(anyIsolation, { keepData: true, settings: images.settings })
    await Template.build(template, 'more', warren.client)
  })
})
