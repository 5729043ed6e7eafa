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

/** The command `serve` runs for ever; `ask` fails this number of times before it succeeds. */
function serving({ agent }: Fixture, failures = 0): void {
  agent.runs = async (command) => {
    if (command === 'serve') return new Promise(() => {})
    return failures-- > 0
      ? { exitCode: 1, status: 'exit status 1' }
      : { exitCode: 0, status: 'exit status 0' }
  }
}

describe('a template with a start command', () => {
  it('is started in the build, and its sandboxes start from that snapshot', async () => {
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

  it('starts its command in each sandbox if the sandbox has another memory size than the template', async () => {
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

  it('starts its command in each sandbox before the hand-over if snapshots contain no memory', async () => {
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

  it('starts its command in each sandbox if a process has a network that a snapshot would lose', async () => {
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

  it('fails if the ready command hangs for ten minutes', async () => {
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

  it('waits for the ready command if the start command exits successfully before', async () => {
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

  it('fails with the reason if the start command fails early, and leaves nothing behind', async () => {
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
