import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Fixture, gate, openFixture, request, until } from '../../../../test/support/domain.ts'
import { ManualClock } from '../../../lib/clock.ts'
import type { AgentPort } from '../../ports/agent.ts'
import type { TemplateBuild } from '../../template/template.ts'
import { runStartCommand } from '../launch/start-command.ts'

/** The base template with a service. */
async function withService({ stores, catalog, team }: Fixture): Promise<TemplateBuild> {
  const { build } = await catalog.resolve(team, 'base')
  const service = { startCmd: 'serve', readyCmd: 'ask' }
  await stores.templates.updateBuild(build.buildID, service)
  return { ...build, ...service }
}

/** `serve` runs for ever; `ask` fails so many times first. */
function serving({ agent }: Fixture, failures = 0): void {
  agent.runs = async (command) => {
    if (command === 'serve') return new Promise(() => {})
    return failures-- > 0
      ? { exitCode: 1, status: 'exit status 1' }
      : { exitCode: 0, status: 'exit status 0' }
  }
}

describe('a template with a start command', () => {
  it('is kept ready, and its sandboxes begin from there', async () => {
    await using fixture = await openFixture()
    const { service, team, stores, agent, driver } = fixture
    const build = await withService(fixture)
    serving(fixture)
    const snapshot = await fixture.prepare(build)
    assert.deepEqual(agent.ran, ['serve', 'ask'])
    assert.equal(driver.world.sandboxes.size, 0)
    await stores.templates.updateBuild(build.buildID, { snapshot: snapshot! })
    await service.create(team, request())
    assert.deepEqual(agent.ran, ['serve', 'ask'])
    await fixture.reconciler.run()
    assert.equal(driver.world.snapshots.size, 1)
  })

  it('is started in each sandbox where its memory has another size than the template', async () => {
    await using fixture = await openFixture()
    const { service, team, stores, agent, driver } = fixture
    const build = await withService(fixture)
    serving(fixture)
    const snapshot = await fixture.prepare({ ...build, memoryMB: 2 * build.memoryMB })
    await stores.templates.updateBuild(build.buildID, { snapshot: snapshot! })
    const { sandboxID } = await service.create(team, request())
    assert.deepEqual(agent.ran, ['serve', 'ask', 'serve', 'ask'])
    assert.equal(driver.world.sandboxes.get(sandboxID)!.spec.memoryMB, build.memoryMB)
  })

  it('is started in each sandbox where no memory is kept, before anybody gets it', async () => {
    await using fixture = await openFixture({ snapshotMemory: false })
    const { service, team, agent, routes } = fixture
    const build = await withService(fixture)
    serving(fixture)
    assert.equal(await fixture.prepare(build), undefined)
    agent.ran.length = 0
    const { sandboxID } = await service.create(team, request())
    assert.deepEqual(agent.ran, ['serve', 'ask'])
    const [fork] = await service.fork(team, sandboxID, { timeoutMs: 1000, count: 1 })
    assert.ok('sandbox' in fork!)
    assert.deepEqual(agent.ran, ['serve', 'ask', 'serve', 'ask'])
    assert.ok(routes.get(fork.sandbox.sandboxID))
  })

  it('is started in each sandbox where it has a network that memory would not keep', async () => {
    await using fixture = await openFixture()
    const { service, team, agent } = fixture
    const build = await withService(fixture)
    serving(fixture)
    agent.otherNetworks = 'some'
    assert.equal(await fixture.prepare(build), undefined)
    agent.ran.length = 0
    await service.create(team, request())
    assert.deepEqual(agent.ran, ['serve', 'ask'])
  })

  it('whose ready command hangs is given up after ten minutes', async () => {
    const clock = new ManualClock()
    const hang: AgentPort['run'] = (_endpoint, _token, _command, { signal }) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    const service = { startCmd: 'serve', readyCmd: 'ask', serviceContext: null }
    const context = { ...service, defaultUser: 'user', defaultWorkdir: '/' }
    const agent = { run: hang } as unknown as AgentPort
    const { signal } = new AbortController()
    const done = runStartCommand(agent, { host: 'x', port: 1 }, 'token', context, { clock, signal })
    clock.advance(10 * 60_000)
    await assert.rejects(done, /^AppError: the ready command 'ask' did not succeed within 10 minutes$/)
  })

  it('that ends well before it is ready is waited for', async () => {
    await using fixture = await openFixture()
    const build = await withService(fixture)
    const readiness = gate()
    fixture.agent.runs = async (command) => {
      if (command !== 'serve') await readiness.opened
      return { exitCode: 0, status: 'exit status 0' }
    }
    const preparing = fixture.prepare(build)
    await until(async () => fixture.agent.ran.length === 2)
    readiness.open()
    assert.equal((await preparing)?.memory, true)
  })

  it('that ends too early fails, in words, and leaves nothing', async () => {
    for (const snapshotMemory of [true, false]) {
      await using fixture = await openFixture({ snapshotMemory })
      const { service, team, agent, driver } = fixture
      const build = await withService(fixture)
      agent.runs = async (command) =>
        command === 'serve' ? { exitCode: 3, status: 'exit status 3' } : new Promise(() => {})
      const attempt = snapshotMemory ? fixture.prepare(build) : service.create(team, request())
      await assert.rejects(attempt, /start command ended before it was ready: exit status 3/)
      assert.equal(driver.world.sandboxes.size + driver.world.snapshots.size, 0)
    }
  })
})
