import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openBuilder, runs, step } from '../../../test/support/builder.ts'
import { modesChanged, trustStoreChanged } from './scripts.ts'

const ok = { exitCode: 0, status: 'exit status 0' }

describe('an inherited service', () => {
  it('runs in the folder of its own template, with its variables and as its user', async () => {
    await using site = await openBuilder()
    const { agent } = site.fixture
    agent.runs = (command) => (command === 'serve' ? new Promise(() => {}) : Promise.resolve(ok))
    const context = (user: string, workdir: string, value: string) => [
      step('USER', [user]),
      step('WORKDIR', [workdir]),
      step('ENV', ['A', value]),
    ]
    const steps = context('root', '/srv', '1')
    const parent = await site.build({ steps, startCmd: 'serve', readyCmd: 'ready' })
    const child = await site.build({
      source: { build: await site.asTemplate(parent.result) },
      steps: context('user', '/app', '2'),
    })
    const ownContext = { user: 'root', workdir: '/srv', envVars: { A: '1' } }
    assert.deepEqual(child.result.serviceContext, ownContext)
    agent.commands.length = 0
    const source = { build: await site.asTemplate(child.result) }
    const grandchild = await site.build({ source, steps: context('other', '/', '3') })
    assert.deepEqual(grandchild.result.serviceContext, ownContext)
    for (const wanted of ['serve', 'ready']) {
      const { user, cwd, envs } = agent.commands.find(({ command }) => command === wanted)!
      assert.deepEqual({ user, cwd, envs }, { user: 'root', cwd: '/srv', envs: { A: '1' } })
    }
    const own = await site.build({ source, startCmd: 'serve', readyCmd: 'ready' })
    assert.equal(own.result.serviceContext, null)
  })
})

describe('modes that the end of a build changed', () => {
  it('are kept, once for all builds with the same steps, and nothing is said of authorities', async () => {
    await using site = await openBuilder()
    const plain = await site.build({ steps: runs('one') })
    site.fixture.agent.finishEnds = { exitCode: modesChanged, status: 'exit status 4' }
    const first = await site.build({ steps: runs('one', 'two') })
    const second = await site.build({ steps: runs('one', 'two') })
    assert.deepEqual(second.result, first.result)
    assert.notDeepEqual(first.result.snapshot, plain.result.snapshot)
    assert.ok(![...first.lines, ...second.lines].some((line) => /authorities/.test(line)))
  })
})

describe('certificate authorities that steps added', () => {
  it('become trusted at the end, once for all builds with the same steps', async () => {
    await using site = await openBuilder()
    const { agent } = site.fixture
    const quiet = await site.build({ steps: runs('one') })
    agent.finishEnds = { exitCode: trustStoreChanged, status: 'exit status 3' }
    const said = '[finalize] The authorities that steps added are trusted'
    const first = await site.build({ steps: runs('one', 'two') })
    assert.ok(first.lines.includes(said) && !quiet.lines.includes(said))
    const second = await site.build({ steps: runs('one', 'two') })
    assert.ok(!second.lines.includes(said))
    assert.deepEqual(second.result, first.result)
    const [, two] = runs('one', 'two')
    const forced = await site.build({ steps: [...runs('one'), { ...two!, force: true }] })
    assert.ok(forced.lines.includes(said))
    assert.notDeepEqual(forced.result.snapshot, first.result.snapshot)
  })

  it('do not fail the build if they cannot be trusted, and its log has a warning', async () => {
    await using site = await openBuilder()
    site.fixture.agent.finishEnds = { exitCode: 1, status: 'exit status 1' }
    const { lines } = await site.build({ steps: runs('one') })
    assert.ok(lines.some((line) => /could not be made trusted: exit status 1/.test(line)))
  })
})
