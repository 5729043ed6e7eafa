import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { forever, openBuilds, plain } from '../../../test/support/builds.ts'
import { addTeam, failsWith } from '../../../test/support/domain.ts'

describe('a request for a build', () => {
  it('is rejected while twenty builds of the team have not ended', async () => {
    await using world = await openBuilds()
    world.knobs.runs = forever
    const { buildID } = await world.begin('mine-0')
    for (let number = 1; number < 20; number++) await world.request(`mine-${number}`)
    await assert.rejects(world.request('more'), failsWith('limit_reached'))
    assert.equal(await world.fixture.stores.templates.findByAlias('alpha', 'more'), undefined)
    await world.request('theirs', ['default'], await addTeam(world.fixture, 'beta'))
    await world.builds.cancel(buildID, 'called off')
    await world.request('more')
  })

  it('is rejected for all but twenty of forty at once, and leaves nothing of the others', async () => {
    await using world = await openBuilds()
    const { templates } = world.fixture.stores
    const names = Array.from({ length: 40 }, (_, number) => `mine-${number}`)
    const outcomes = await Promise.allSettled(names.map((name) => world.request(name)))
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
    assert.equal(refused.length, 20)
    for (const { reason } of refused) assert.equal(reason.code, 'limit_reached')
    const known = await Promise.all(names.map((name) => templates.findByAlias('alpha', name)))
    assert.equal(known.filter(Boolean).length, 20)
  })
})
describe('a disk without free space', () => {
  it('makes new builds fail, at their request and at their start, and nothing is built', async () => {
    await using world = await openBuilds()
    const { team, stores } = world.fixture
    const { template, build } = await world.request('mine')
    world.knobs.freeBytes = 0
    await assert.rejects(world.request('other'), failsWith('no_space'))
    assert.equal(await stores.templates.findByAlias('alpha', 'other'), undefined)
    const start = () => world.builds.start(team, template.templateID, build.buildID, plain)
    await assert.rejects(start(), failsWith('no_space'))
    assert.equal(await world.statusOf(build.buildID), 'waiting')
    world.knobs.freeBytes = 1e12
    await start()
    await world.ended(build.buildID)
  })
})
