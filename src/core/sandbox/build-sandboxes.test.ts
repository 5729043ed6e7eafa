import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openFixture } from '../../../test/support/domain.ts'

describe('a sandbox of a build that cannot be stopped', () => {
  it('is left to the reconciler, and keeps nobody from closing', async () => {
    await using fixture = await openFixture()
    const { buildSandboxes, catalog, team, driver, reconciler, service, logged } = fixture
    const { build } = await catalog.resolve(team, 'base')
    const sandbox = await buildSandboxes.open(build, new AbortController().signal)
    await reconciler.run()
    assert.equal(driver.world.sandboxes.size, 1)
    driver.beforeStopped = () => Promise.reject(new Error('a process does not die'))
    await sandbox.close()
    assert.ok(logged.some(({ message }) => message === 'The sandbox of a build could not be stopped yet.'))
    await service.close()
    await reconciler.run()
    assert.equal(driver.world.sandboxes.size, 1)
    driver.beforeStopped = async () => {}
    await reconciler.run()
    assert.equal(driver.world.sandboxes.size, 0)
  })
})
