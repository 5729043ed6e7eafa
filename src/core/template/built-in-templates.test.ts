import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { addTeam, failsWith, gate, openFixture, request, until } from '../../../test/support/domain.ts'
import { isAppError } from '../../lib/app-error.ts'
import { type Builder, BuildFailure, type BuildJob } from './builder.ts'
import type { BuiltInRecipe } from './built-in-templates.ts'
import type { BuildStatus } from './template.ts'

const recipe: BuiltInRecipe = {
  alias: 'thing-v1',
  name: 'thing',
  about: 'A thing.',
  seconds: 90,
  sizes: { cpuCount: 2, memoryMB: 2048, diskMB: 1024 },
  request: async ({ full }) => ({
    from: { image: 'debian:12' },
    startCmd: null,
    readyCmd: null,
    force: false,
    steps: [{ type: 'RUN', args: [full ? 'all' : 'some'], filesHash: null, force: false }],
  }),
}

async function openBuiltIns() {
  const jobs: BuildJob[] = []
  const blocked = gate()
  const knobs: { fails: boolean | 'step' } = { fails: false }
  const builder: Builder = {
    async run(job, _log, _signal, onResult) {
      jobs.push(job)
      await blocked.opened
      if (knobs.fails === 'step') throw new BuildFailure('1', 'pip found no network.')
      if (knobs.fails) throw new Error('no network')
      const context = { envVars: {}, defaultUser: 'user', defaultWorkdir: '/home/user', serviceContext: null }
      await onResult({
        rootFolder: 'r',
        layers: null,
        snapshot: null,
        startCmd: null,
        readyCmd: null,
        ...context,
      })
    },
  }
  const fixture = await openFixture({ ports: { createBuilder: () => builder, recipes: [recipe] } })
  const status = (wanted: BuildStatus) =>
    until(async () => (await fixture.builtIns.progress('thing')).build.status === wanted)
  return {
    fixture,
    jobs,
    blocked,
    knobs,
    status,
    [Symbol.asyncDispose]: () => fixture[Symbol.asyncDispose](),
  }
}

describe('built-in templates', () => {
  it('are built once by their first use, which gets a time to retry, and are for every team', async () => {
    await using world = await openBuiltIns()
    const { service, team, builtIns } = world.fixture
    const other = await addTeam(world.fixture, 'beta')
    for (const one of [team, other]) {
      await assert.rejects(service.create(one, request({ template: 'thing-v1' })), (error) => {
        assert.ok(isAppError(error, 'unavailable'))
        assert.match(error.message, /'thing-v1' is being built.*about 2 minutes.*warren template add thing/)
        assert.deepEqual(error.retry, { should: true, afterSeconds: 90 })
        return true
      })
    }
    assert.equal(world.jobs.length, 1)
    world.blocked.open()
    await world.status('ready')
    const { cpuCount, memoryMB } = (await builtIns.progress('thing')).build
    assert.deepEqual([cpuCount, memoryMB], [2, 2048])
    for (const one of [team, other]) await service.create(one, request({ template: 'thing-v1' }))
  })

  it('report to the next use why they could not be built, and are built again', async () => {
    await using world = await openBuiltIns()
    const { service, team } = world.fixture
    const create = () => service.create(team, request({ template: 'thing-v1' }))
    world.knobs.fails = true
    world.blocked.open()
    await assert.rejects(create(), /is being built/)
    await world.status('error')
    world.knobs.fails = false
    await assert.rejects(create(), /The previous attempt failed: .*no network/)
    await world.status('ready')
    await create()
  })

  it('are not tried again by creates for ten minutes after a step failed, but at once by the operator', async () => {
    await using world = await openBuiltIns()
    const { service, team, builtIns, clock } = world.fixture
    const create = () => service.create(team, request({ template: 'thing-v1' }))
    world.knobs.fails = 'step'
    world.blocked.open()
    await assert.rejects(create(), /is being built/)
    await world.status('error')
    clock.advance(30_000)
    await assert.rejects(create(), (error) => {
      assert.ok(isAppError(error, 'unavailable'))
      assert.match(
        error.message,
        /could not be built: pip found no network\. .* again in 10 minutes.*warren template add thing/,
      )
      assert.deepEqual(error.retry, { should: false, afterSeconds: 570 })
      return true
    })
    assert.equal(world.jobs.length, 1)
    await builtIns.make('thing', { full: false })
    await until(async () => world.jobs.length === 2)
    await world.status('error')
    clock.advance(599_000)
    await assert.rejects(create(), /again in 1 s /)
    clock.advance(1000)
    await assert.rejects(create(), /is being built.*The previous attempt failed: pip found no network/)
    await until(async () => world.jobs.length === 3)
    await world.status('error')
  })

  it('join a build in progress, except for a request that needs more packages', async () => {
    await using world = await openBuiltIns()
    const { builtIns } = world.fixture
    const first = await builtIns.make('thing', { full: false })
    assert.deepEqual(await builtIns.make('thing', { full: false }), first)
    await assert.rejects(builtIns.make('thing', { full: true }), failsWith('conflict'))
    world.blocked.open()
    await world.status('ready')
    const whole = await builtIns.make('thing', { full: true })
    assert.equal(whole.templateID, first.templateID)
    assert.deepEqual(
      world.jobs.map(({ steps }) => steps[0]?.args),
      [['some'], ['all']],
    )
    await assert.rejects(builtIns.make('nothing', { full: false }), /It has: thing\./)
  })
})

describe('the list of templates that Warren makes by itself', () => {
  it('tells the state of each, and lets a team build what is missing and nothing else', async () => {
    await using world = await openBuiltIns()
    const { builtIns, clock } = world.fixture
    const state = async () => {
      const [{ isReady, newest } = assert.fail()] = await builtIns.list()
      return [isReady, newest?.status, newest?.reason?.message.includes('no network')]
    }
    assert.deepEqual(await state(), [false, undefined, undefined])
    const first = await builtIns.makeMissing('thing')
    assert.deepEqual(await state(), [false, 'building', undefined])
    assert.deepEqual(await builtIns.makeMissing('thing'), first)
    world.knobs.fails = true
    world.blocked.open()
    await world.status('error')
    assert.deepEqual(await state(), [false, 'error', true])
    world.knobs.fails = false
    clock.advance(1000)
    await builtIns.makeMissing('thing')
    await world.status('ready')
    assert.deepEqual(await state(), [true, 'ready', undefined])
    await assert.rejects(builtIns.makeMissing('thing'), failsWith('permission_denied'))
    world.knobs.fails = true
    clock.advance(1000)
    await builtIns.make('thing', { full: true })
    await world.status('error')
    assert.deepEqual(await state(), [true, 'error', true])
    await assert.rejects(builtIns.makeMissing('thing'), /Only the operator/)
    await assert.rejects(builtIns.makeMissing('nothing'), /It has: thing\./)
  })
})

describe('a built-in template with two requests at once', () => {
  it('is built once, and the request for more packages is rejected meanwhile', async () => {
    await using world = await openBuiltIns()
    const { builtIns } = world.fixture
    const [usual, same, full] = await Promise.allSettled([
      builtIns.make('thing', { full: false }),
      builtIns.make('thing', { full: false }),
      builtIns.make('thing', { full: true }),
    ])
    assert.equal(world.jobs.length, 1)
    assert.deepEqual(same, usual)
    assert.ok(full.status === 'rejected' && failsWith('conflict')(full.reason))
    world.blocked.open()
    await world.status('ready')
  })
})
