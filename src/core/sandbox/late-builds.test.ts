/** The build of a snapshot is one row. Its bytes stay as long as that row may still appear. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Fixture, failsWith, openFixture, request, turning } from '../../../test/support/domain.ts'
import { connectionLost } from '../../../test/support/store-faults.ts'
import { AppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import { parseOwnName } from '../template/service.ts'
import type { TemplateStore } from '../template/template-store.ts'
import { startSnapshotName } from './snapshots/snapshot-names.ts'

async function remembering(fixture: Fixture, text: string): Promise<string> {
  const { service, team, driver } = fixture
  const { sandboxID } = await service.create(team, request())
  driver.world.sandboxes.get(sandboxID)!.memory.set('m', text)
  return sandboxID
}

/** What a sandbox of this template has in its memory. */
async function memoryOf({ service, team, driver }: Fixture, template: string): Promise<string | undefined> {
  const { sandboxID } = await service.create(team, request({ template }))
  return driver.world.sandboxes.get(sandboxID)?.memory.get('m')
}

describe('a snapshot', () => {
  it('has its bytes if its build appears after the request has failed', async () => {
    await using fixture = await openFixture()
    const { service, team, clock, reconciler, quarantine, stores, storeFaults, driver } = fixture
    const sandboxID = await remembering(fixture, 'first')
    const named = { name: parseOwnName(team, 'mine'), memory: true }
    await service.snapshot(team, sandboxID, named)
    driver.world.sandboxes.get(sandboxID)!.memory.set('m', 'second')
    let late: Parameters<TemplateStore['insertBuild']> | undefined
    storeFaults.templates.before = (method, args) => {
      if (method !== 'insertBuild') return
      late = args as unknown as typeof late
      throw connectionLost()
    }
    await assert.rejects(turning(clock, service.snapshot(team, sandboxID, named)), failsWith('unavailable'))
    storeFaults.templates.before = () => {}
    await reconciler.run()
    await stores.templates.insertBuild(...late!)
    assert.equal(await memoryOf(fixture, 'mine'), 'second')
    await reconciler.run()
    assert.deepEqual(await quarantine.list(), [])
    assert.equal(await memoryOf(fixture, 'mine'), 'second')
  })

  for (const when of ['before', 'after'] as const) {
    it(`succeeds if the connection is lost for a moment ${when} its build is inserted`, async () => {
      await using fixture = await openFixture()
      const { service, team, clock, storeFaults, driver } = fixture
      const sandboxID = await remembering(fixture, 'first')
      let left = 2
      storeFaults.templates[when] = (method) => {
        if (method === 'insertBuild' && left-- > 0) throw connectionLost()
      }
      const made = await turning(clock, service.snapshot(team, sandboxID, { memory: true }))
      assert.equal(await memoryOf(fixture, made.snapshotID), 'first')
      assert.equal(driver.world.snapshots.size, 1)
    })
  }

  it('leaves no bytes if its build was certainly not inserted', async () => {
    await using fixture = await openFixture()
    const { service, team, storeFaults, driver } = fixture
    const sandboxID = await remembering(fixture, 'first')
    storeFaults.templates.before = (method) => {
      if (method === 'insertBuild') throw new AppError('not_found', 'The template was deleted.')
    }
    await assert.rejects(service.snapshot(team, sandboxID, { memory: true }), failsWith('not_found'))
    assert.equal(driver.world.snapshots.size, 0)
  })
})

it('the snapshot with the service of a build stays until it is certain how the build has ended', async () => {
  await using fixture = await openFixture()
  const { reconciler, stores, driver, clock } = fixture
  const ready = (await stores.templates.findReadyBuild('basetemplate', 'default'))!
  const build = { ...ready, buildID: newUUID(), status: 'building' as const, finishedAt: null }
  await stores.templates.insertBuild(build, ['v1'])
  const name = startSnapshotName(build)
  const { handle } = driver.world.sandboxes.get(await remembering(fixture, 'service'))!
  await driver.takeSnapshot(handle, name, { memory: true, afterwards: 'go-on', lasting: true })
  await reconciler.run()
  assert.ok(driver.world.snapshots.has(name), 'the build may become ready yet')
  await stores.templates.transitionBuild(build.buildID, ['building'], 'error', { updatedAt: clock.now() })
  await reconciler.run()
  assert.equal(driver.world.snapshots.has(name), false)
})
