/** Disk space that comes back: `warren prune`, and the dashboard. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { Sandbox, Template } from 'e2b'
import { logIn, openBrowser } from '../dashboard/browser.ts'
import { buildContext, sayIn } from '../support/building.ts'
import { eventually } from '../support/eventually.ts'
import { type LayeredImages, layersOf, makeLayeredImages } from '../support/layered-images.ts'
import { anyIsolation, repoFolder, startWarren, type Warren } from '../support/warren.ts'

type Report = Record<'steps' | 'savedStates' | 'layers' | 'files', { count: number; bytes: number }> & {
  bytes: number
}

async function prune(warren: Warren, ...words: string[]): Promise<string> {
  const env = { ...process.env, WARREN_DATA_DIR: warren.dataFolder }
  return (await promisify(execFile)(join(repoFolder, 'bin/warren'), ['prune', ...words], { env })).stdout
}

describe('pruning', () => {
  let images: LayeredImages
  let warren: Warren
  before(async () => {
    images = await makeLayeredImages()
  })
  after(async () => {
    await warren?.stop()
    images?.remove()
  })

  it('frees everything that nothing needs, and keeps templates and sandboxes intact', async () => {
    warren = await startWarren(anyIsolation, { settings: images.settings })
    // What files before this one pulled on this data folder is kept until it was not asked for during some seconds.
    await eventually(async () => {
      await prune(warren)
      assert.equal(layersOf(warren).length, 1, 'more than that of the base template')
    })
    using context = await buildContext({ 'file.txt': 'copied\n' })
    const template = (image: string) =>
      Template({ fileContextPath: context.folder })
        .fromImage(image)
        .copy('file.txt', '/srv/')
        .runCmd('echo made > /srv/made', { user: 'root' })
    await Template.build(template('one:1'), 'kept', warren.client)
    await Template.build(template('two:1'), 'gone', warren.client)
    // Its template goes; it must go on, and over a pause too.
    const sandbox = await Sandbox.create('gone', { ...warren.client, timeoutMs: 3_600_000 })
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
    })
    const before = layersOf(warren)
    assert.match(await prune(warren), /\nFreed \d+\.\d MiB\.\n$/)
    assert.equal(before.length - layersOf(warren).length, 1)
    const left: Report = JSON.parse(await prune(warren, '--json'))
    assert.deepEqual([left.bytes, left.steps.count, left.layers.count, left.files.count], [0, 0, 0, 0])
    assert.equal(await sayIn(warren, 'kept', 'cat /srv/made /many/3/7'), 'made\none')
    await Template.build(template('two:1'), 'gone', warren.client)
    assert.equal(await sayIn(warren, 'gone', 'cat /srv/made /many/3/7'), 'made\ntwo')
  })

  it('frees the same from the dashboard, which first lists what it will remove', async () => {
    assert.equal((await warren.api('/templates/gone', { method: 'DELETE' })).status, 204)
    await eventually(async () => {
      const planned: Report = JSON.parse(await prune(warren, '--dry-run', '--json'))
      assert.equal(planned.layers.count, 1)
    })
    await using browser = await openBrowser()
    const page = await browser.newPage({ reducedMotion: 'reduce' })
    await logIn(page, warren.url, warren.adminToken)
    await page.getByRole('link', { name: 'Machine' }).click()
    await page.getByRole('button', { name: 'Prune' }).click()
    await page
      .getByRole('dialog')
      .getByText(/ 1 image layer.*About \d+\.\d MiB are freed\./)
      .waitFor()
    const before = layersOf(warren)
    await page.getByRole('dialog').getByRole('button', { name: 'Prune' }).click()
    await page.getByText(/^\d+\.\d MiB are freed\.$/).waitFor()
    assert.equal(before.length - layersOf(warren).length, 1)
    await page.getByRole('button', { name: 'Prune' }).click()
    await page.getByText('There is nothing to prune.').waitFor()
  })
})
