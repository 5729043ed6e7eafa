import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openBuilder } from '../../../test/support/builder.ts'
import { AppError } from '../../lib/app-error.ts'
import { BuildSite, type Stage } from './stage.ts'

const start: Stage = {
  key: 'start',
  snapshotName: null,
  layers: ['sha256:a'],
  rootFolder: null,
  envVars: { A: '1' },
  user: 'me',
  workdir: '/srv',
}

async function openSite() {
  const builder = await openBuilder()
  const { fixture } = builder
  const parts = { ...fixture, images: builder.images }
  builder.images.here.add('sha256:a')
  const site = new BuildSite(parts, await builder.baseBuild(), start, new AbortController().signal)
  return {
    fixture,
    site,
    parts,
    async [Symbol.asyncDispose]() {
      await site.close()
      await builder[Symbol.asyncDispose]()
    },
  }
}

describe('a build site', () => {
  it('boots one sandbox, when it is first needed, from the current stage', async () => {
    await using world = await openSite()
    const { site, fixture } = world
    const { sandboxes } = fixture.driver.world
    assert.equal(sandboxes.size, 0)
    const sandbox = await site.sandbox()
    assert.equal(await site.sandbox(), sandbox)
    assert.equal(sandboxes.size, 1)
    const { layers, snapshot, envVars, defaultUser, defaultWorkdir } = site.asBuild()
    assert.deepEqual([layers, snapshot, envVars], [['sha256:a'], null, { A: '1' }])
    assert.deepEqual([defaultUser, defaultWorkdir], ['me', '/srv'])
    await site.close()
    assert.equal(sandboxes.size, 0)
  })

  it('takes no snapshot of files if no sandbox was needed', async () => {
    await using world = await openSite()
    world.site.change({ user: 'you' })
    assert.deepEqual(await world.site.complete('next'), { ...start, key: 'next', user: 'you' })
    assert.equal(world.fixture.driver.world.snapshots.size, 0)
  })

  it('continues in the same sandbox, and keeps the files as each step left them', async () => {
    await using world = await openSite()
    const { site, fixture } = world
    const { sandboxes, snapshots } = fixture.driver.world
    const first = await site.sandbox()
    sandboxes.get(first.sandboxID)!.files.set('f', '1')
    const { snapshotName } = await site.complete('one')
    const unchanged = await site.complete('no files')
    assert.deepEqual([unchanged.snapshotName, snapshots.size], [snapshotName, 1])
    assert.equal(await site.sandbox(), first)
    const stage = await site.complete('two')
    assert.notEqual(stage.snapshotName, snapshotName)
    assert.deepEqual([stage.key, stage.layers], ['two', ['sha256:a']])
    assert.equal(snapshots.size, 2)
    assert.equal((await site.finish()).snapshot?.name, stage.snapshotName)
    assert.equal(sandboxes.size, 0)
  })

  it('leaves the sandbox if a later step comes from the cache', async () => {
    await using world = await openSite()
    const { site, fixture } = world
    await site.sandbox()
    const { snapshotName } = await site.complete('one')
    assert.equal(await site.adopt({ ...start, key: 'later', snapshotName }), true)
    assert.equal(fixture.driver.world.sandboxes.size, 0)
  })

  it('restores a stage only if its files still exist', async () => {
    await using world = await openSite()
    const { site } = world
    assert.equal(await site.adopt({ ...start, key: 'gone', snapshotName: 'gone' }), false)
    assert.equal(site.stage, start)
    const bare = { ...start, key: 'bare', user: 'you' }
    assert.equal(await site.adopt(bare), true)
    assert.equal(site.stage, bare)
  })

  it('protects all files that it uses from the sweep until it is closed', async () => {
    await using world = await openSite()
    const { site, fixture } = world
    const { snapshots } = fixture.driver.world
    await site.sandbox()
    await site.complete('one')
    await site.sandbox()
    await site.complete('two')
    await fixture.reconciler.run()
    assert.equal(snapshots.size, 2)
    await site.close()
    await fixture.reconciler.run()
    assert.equal(snapshots.size, 0)
  })

  it('protects the files that it restored from the sweep, although nobody else owns them any more', async () => {
    await using earlier = await openSite()
    const { fixture } = earlier
    await earlier.site.sandbox()
    const left = await earlier.site.complete('one')
    const later = new BuildSite(earlier.parts, earlier.site.asBuild(), start, new AbortController().signal)
    assert.equal(await later.adopt(left), true)
    await earlier.site.close()
    await fixture.reconciler.run()
    assert.equal(fixture.driver.world.snapshots.has(left.snapshotName!), true)
    await later.close()
    await fixture.reconciler.run()
    assert.equal(fixture.driver.world.snapshots.size, 0)
  })

  it('hands over the disk itself if much was written, and the next step boots on it', async () => {
    await using world = await openSite()
    const { site, fixture } = world
    const { sandboxes } = fixture.driver.world
    const first = await site.sandbox()
    sandboxes.get(first.sandboxID)!.files.set('f', '1')
    const stats = await fixture.driver.stats(sandboxes.get(first.sandboxID)!.handle)
    const little = fixture.driver.stats
    fixture.driver.stats = async () => ({ ...stats, diskUsedBytes: 300 * 2 ** 20 })
    await site.complete('one')
    assert.equal(sandboxes.size, 0)
    fixture.driver.stats = little
    const second = await site.sandbox()
    assert.notEqual(second.sandboxID, first.sandboxID)
    assert.equal(sandboxes.get(second.sandboxID)!.files.get('f'), '1')
    await site.complete('two')
    assert.equal(await site.sandbox(), second)
    await site.close()
    assert.equal(sandboxes.size, 0)
  })

  it('does not count as a sandbox without an owner until it is closed', async () => {
    await using world = await openSite()
    const { site, fixture } = world
    await site.sandbox()
    await fixture.reconciler.run()
    assert.equal(fixture.driver.world.sandboxes.size, 1)
    await site.close()
    await site.close()
    assert.equal(fixture.driver.world.sandboxes.size, 0)
  })

  it('ends a sandbox whose snapshot failed, and its stage stays unchanged', async () => {
    await using world = await openSite()
    const { site, fixture } = world
    await site.sandbox()
    fixture.driver.beforeSnapshot = async () => {
      throw new AppError('no_space', 'the disk is full')
    }
    await assert.rejects(site.complete('one'), /the disk is full/)
    assert.equal(site.stage, start)
    await site.close()
    assert.equal(fixture.driver.world.sandboxes.size, 0)
  })
})
