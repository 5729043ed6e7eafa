import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { forever, openBuilds, plain } from '../../../test/support/builds.ts'
import { turning, until } from '../../../test/support/domain.ts'
import { connectionLost, failCalls } from '../../../test/support/store-faults.ts'

describe('a build whose store answers are lost', () => {
  it('is requested once, under one name, even if the first try takes effect late', async () => {
    for (const moment of ['lost', 'late'] as const) {
      await using world = await openBuilds()
      const { clock, stores, storeFaults } = world.fixture
      if (moment === 'lost') storeFaults.templates.after = failCalls('insertBuildWithin', 1)
      let tries = 0
      if (moment === 'late')
        storeFaults.templates.before = async (method, args) => {
          if (method !== 'insertBuildWithin') return
          tries++
          if (tries === 1) throw connectionLost()
          if (tries === 2) await stores.templates.insertBuildWithin(...(args as [never, never, never]))
        }
      const { template, build } = await turning(clock, world.request('mine'))
      const all = await stores.templates.listBuilds(template.templateID, { limit: 10 })
      assert.deepEqual(
        all.map(({ buildID, status }) => [buildID, status]),
        [[build.buildID, 'waiting']],
        moment,
      )
    }
  })

  it('ends the builds that it supersedes although the answer is lost', async () => {
    await using world = await openBuilds()
    const { clock, storeFaults } = world.fixture
    const old = await world.request('mine')
    storeFaults.templates.before = failCalls('supersede', 1)
    await turning(clock, world.request('mine'))
    assert.equal(await world.statusOf(old.build.buildID), 'error')
  })

  it('is not reported as failed if it is ready and only the answer never came', async () => {
    await using world = await openBuilds()
    const { clock, team, storeFaults, warm } = world.fixture
    const ready: string[] = []
    warm.replace = async ({ buildID }) => void ready.push(buildID)
    const { templates } = storeFaults
    templates.after = (method, args) => {
      if (method !== 'transitionBuild' || args[2] !== 'ready') return
      templates.before = failCalls('findBuild', 4)
      throw connectionLost()
    }
    const { templateID, buildID } = await world.begin('mine')
    await turning(
      clock,
      until(async () => ready.length === 1),
    )
    assert.deepEqual([await world.statusOf(buildID), ready], ['ready', [buildID]])
    const { entries } = await world.builds.status(team, templateID, buildID)
    assert.ok(!entries.some(({ message }) => /Build failed/.test(message)))
  })

  it('stays ready if the work after that fails', async () => {
    await using world = await openBuilds()
    const { team, warm, logged } = world.fixture
    warm.replace = () => Promise.reject(new Error('no memory'))
    const { templateID, buildID } = await world.begin('mine')
    await until(async () => logged.some(({ message }) => /fault of its own/.test(message)))
    assert.equal(await world.statusOf(buildID), 'ready')
    const { entries } = await world.builds.status(team, templateID, buildID)
    assert.ok(!entries.some(({ message }) => /Build failed/.test(message)))
  })

  it('is cancelled although it is started at that moment', async () => {
    await using world = await openBuilds()
    const { team, storeFaults } = world.fixture
    world.knobs.runs = forever
    const { build } = await world.request('mine')
    const { templates } = storeFaults
    templates.before = async (method, args) => {
      if (method !== 'transitionBuild' || args[2] !== 'error') return
      templates.before = () => {}
      await world.builds.start(team, build.templateID, build.buildID, plain)
    }
    assert.deepEqual(await world.builds.cancelAllOf(team), { cancelledCount: 1, failedCount: 0 })
    assert.equal(await world.statusOf(build.buildID), 'error')
  })
})
