import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openFixture } from '../../../../test/support/domain.ts'

describe('a sandbox of a build that cannot be stopped', () => {
  it('is left to the reconciler, and does not delay closing', async () => {
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

describe('a sandbox of a build that fills the disk', () => {
  it('ends, and its command fails with the reason', async () => {
    await using fixture = await openFixture()
    const { buildSandboxes, catalog, team, driver, agent } = fixture
    const { build } = await catalog.resolve(team, 'base')
    const { signal } = new AbortController()
    const sandbox = await buildSandboxes.open(build, signal)
    agent.run = async () => {
      assert.equal(buildSandboxes.endFor('disk', sandbox.sandboxID), true)
      throw new Error('the connection is gone')
    }
    const command = { cmd: 'true', args: [], envVars: {}, user: 'root' } as never
    await assert.rejects(sandbox.run(command, { signal }), {
      code: 'no_space',
      message: /nearly full, and this build was writing to it/,
    })
    assert.equal(driver.world.sandboxes.size, 0)
    await sandbox.close()
    assert.equal(buildSandboxes.endFor('disk', sandbox.sandboxID), false)
    assert.equal(buildSandboxes.endFor('disk', 'inobody'), false)
  })
})
