/** Disk space that comes back: `warren prune`, a prune that a kill cuts off, and a disk that is nearly full. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { Sandbox, Template } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { buildContext, sayIn } from '../support/building.ts'
import { momentsOf } from '../support/count-of.ts'
import { eventually } from '../support/eventually.ts'
import { writeLayout } from '../support/registry.ts'
import { busyboxRoot } from '../support/roots.ts'
import { isolations, noWarmPool, repoFolder, startWarren, type Warren } from '../support/warren.ts'

type Report = Record<'steps' | 'savedStates' | 'layers' | 'files', { count: number; bytes: number }> & {
  bytes: number
}

const home = mkdtempSync(join(tmpdir(), 'warren-prune-'))
const layout = join(home, 'layout')
const settings = { WARREN_REGISTRY_MIRRORS: `*=folder:${layout}`, ...noWarmPool }

before(async () => {
  const busybox = await busyboxRoot()
  const images = [{ tag: 'bare:1', roots: [busybox] }]
  for (const name of ['one', 'two']) {
    const above = join(home, name)
    // So many that removing them takes a while.
    for (let folder = 0; folder < 20; folder++) {
      mkdirSync(join(above, 'many', String(folder)), { recursive: true })
      for (let file = 0; file < 100; file++)
        writeFileSync(join(above, 'many', String(folder), String(file)), name)
    }
    images.push({ tag: `${name}:1`, roots: [busybox, above] })
  }
  await writeLayout(layout, images)
})
after(() => rmSync(home, { recursive: true, force: true }))

async function prune(warren: Warren, ...words: string[]): Promise<string> {
  const env = { ...process.env, WARREN_DATA_DIR: warren.dataFolder }
  return (await promisify(execFile)(join(repoFolder, 'bin/warren'), ['prune', ...words], { env })).stdout
}

const layersOf = (warren: Warren) => readdirSync(join(warren.dataFolder, 'images/layers'))
const isOne = (layer: string) => {
  const file = join(layer, 'root/many/3/7')
  return existsSync(file) && readFileSync(file, 'utf8') === 'one'
}
const savedOf = (warren: Warren) => readdirSync(join(warren.dataFolder, 'saved'))

for (const isolation of isolations) {
  describe(`pruning, ${isolation}`, () => {
    let warren: Warren
    afterEach(() => warren?.stop())

    it('gives back what nothing needs, and leaves templates and sandboxes whole', async () => {
      warren = await startWarren(isolation, { settings })
      using context = await buildContext({ 'file.txt': 'copied\n' })
      const template = (image: string) =>
        Template({ fileContextPath: context.folder })
          .fromImage(image)
          .copy('file.txt', '/srv/')
          .runCmd('echo made > /srv/made', { user: 'root' })
      await Template.build(template('one:1'), 'kept', warren.client)
      await Template.build(template('two:1'), 'gone', warren.client)
      // Its template goes; it must go on, and over a pause too.
      const sandbox = await Sandbox.create('gone', { ...warren.client, timeoutMs: 120_000 })
      await sandbox.pause()
      await prune(warren)
      const asOperator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
      const other = await warren.api('/admin/teams', { ...asOperator, body: { name: `o-${Date.now()}` } })
      assert.equal(other.status, 201)
      const running = await Sandbox.connect(sandbox.sandboxId, warren.client)
      const said = await running.commands.run('cat /srv/made /srv/file.txt /many/3/7')
      assert.equal(said.stdout, 'made\ncopied\ntwo')
      await running.kill()
      assert.equal((await warren.api('/templates/gone', { method: 'DELETE' })).status, 204)
      await eventually(async () => {
        const planned: Report = JSON.parse(await prune(warren, '--dry-run', '--json'))
        assert.equal(planned.layers.count, 1)
      }, 30_000)
      const before = layersOf(warren)
      assert.match(await prune(warren), /\nFreed \d+\.\d MiB\.\n$/)
      assert.equal(before.length - layersOf(warren).length, 1)
      const left: Report = JSON.parse(await prune(warren, '--json'))
      assert.deepEqual([left.bytes, left.steps.count, left.layers.count, left.files.count], [0, 0, 0, 0])
      assert.equal(await sayIn(warren, 'kept', 'cat /srv/made /many/3/7'), 'made\none')
      await Template.build(template('two:1'), 'gone', warren.client)
      assert.equal(await sayIn(warren, 'gone', 'cat /srv/made /many/3/7'), 'made\ntwo')
    })

    it('that is cut off leaves nothing half, and nothing behind after the next start', async () => {
      warren = await startWarren(isolation, { settings })
      const build = (image: string, name: string) =>
        Template.build(Template().fromImage(image).runCmd('echo made > made'), name, warren.client)
      await build('one:1', 'kept')
      for (const waitMs of momentsOf({ short: 1, long: 10 }, 40)) {
        await build('two:1', 'gone')
        assert.equal((await warren.api('/templates/gone', { method: 'DELETE' })).status, 204)
        // A layer that was asked for a moment ago is not pruned; after a start, nobody has asked.
        await warren.stop()
        warren = await startWarren(isolation, { keep: true, settings })
        const asOperator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
        const cutOff = warren.api('/admin/prune', { ...asOperator, body: {} }).catch(() => {})
        await delay(waitMs)
        await warren.crash()
        await cutOff
        warren = await startWarren(isolation, { keep: true, settings })
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

    it('is not what takes a layer away by hand: that is told at the start, and to who needs it', async () => {
      warren = await startWarren(isolation, { settings })
      await Template.build(Template().fromImage('one:1').runCmd('true'), 'robbed', warren.client)
      await Template.build(Template().fromImage('two:1').runCmd('true'), 'whole', warren.client)
      await warren.stop()
      const layers = join(warren.dataFolder, 'images/layers')
      // Not compressed, so it has the same digest in the image.
      const own = layersOf(warren).filter((name) => existsSync(join(layout, 'blobs/sha256', name)))
      const robbed = own.find((name) => isOne(join(layers, name)))!
      rmSync(join(layers, robbed), { recursive: true })
      warren = await startWarren(isolation, { keep: true, settings })
      assert.match(readFileSync(warren.logFile, 'utf8'), /1 image layers that templates stand on are not on/)
      const refused = Sandbox.create('robbed', warren.client)
      await assert.rejects(refused, /layer \S+ is not on this machine\. Build the template again/)
      const child = Template().fromTemplate('robbed').runCmd('true')
      await assert.rejects(Template.build(child, 'child', warren.client), /not there any more/)
      assert.equal(await sayIn(warren, 'whole', 'cat /many/3/7'), 'two')
      await Template.build(Template().fromImage('one:1').runCmd('true'), 'robbed', warren.client)
      assert.equal(await sayIn(warren, 'robbed', 'cat /many/3/7'), 'one')
    })

    it('comes by itself when the disk is nearly full; builds are rejected where it does not help', async () => {
      warren = await startWarren(isolation, { settings })
      const template = Template().fromImage('one:1').runCmd('echo a > a').runCmd('echo b > b')
      await Template.build(template, 'kept', warren.client)
      const before = savedOf(warren).length
      await warren.stop()
      const short = { ...settings, WARREN_MIN_FREE_DISK_MB: '1073741824' }
      warren = await startWarren(isolation, { keep: true, settings: short })
      const refused = Template.build(template, 'more', warren.client)
      await assert.rejects(refused, /too little disk space for a new build.*WARREN_MIN_FREE_DISK_MB/s)
      assert.equal(before - savedOf(warren).length, 2)
      const log = readFileSync(warren.logFile, 'utf8')
      assert.match(log, /the disk is nearly full: removed 2 cached steps/)
      assert.match(log, /pruning does not help: new builds are rejected/)
      assert.equal(await sayIn(warren, 'kept', 'cat a b'), 'a\nb\n')
      await warren.stop()
      warren = await startWarren(isolation, { keep: true, settings })
      await Template.build(template, 'more', warren.client)
    })
  })
}
