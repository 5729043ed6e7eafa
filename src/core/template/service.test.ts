import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { addTeam, failsWith, openFixture } from '../../../test/support/domain.ts'
import type { AppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Team } from '../team/team.ts'
import { parseOwnName, TemplateService } from './service.ts'
import type { TemplateBuild } from './template.ts'

async function openTemplates() {
  const fixture = await openFixture()
  const { stores, catalog, clock, team } = fixture
  const { templates } = stores
  const other = await addTeam(fixture, 'beta')
  const service = new TemplateService({ templates, catalog, clock })
  const addBuild = async (templateID: string, tags: string[], changes: Partial<TemplateBuild> = {}) => {
    const like = (await templates.findReadyBuild('basetemplate', 'default'))!
    const times = { createdAt: clock.now(), updatedAt: clock.now() }
    const build = { ...like, ...times, buildID: newUUID(), templateID, ...changes }
    await templates.insertBuild(build, tags)
    return build.buildID
  }
  return {
    fixture,
    templates,
    service,
    team,
    other,
    clock,
    addBuild,
    /** With a finished build of the default tag. */
    add: async (templateID: string, of: Team | null = team, isPublic = false) => {
      const times = { createdAt: clock.now(), updatedAt: clock.now(), lastSpawnedAt: null, spawnCount: 0 }
      const teamID = of?.teamID ?? null
      const names = [{ namespace: of?.slug ?? null, alias: `${templateID}-name` }]
      await templates.insertTemplate(
        { templateID, teamID, public: isPublic, isSnapshot: false, ...times },
        names,
      )
      return addBuild(templateID, ['default'])
    },
    [Symbol.asyncDispose]: () => fixture[Symbol.asyncDispose](),
  }
}

const says = (code: string, text: RegExp) => (error: AppError) =>
  error.code === code && text.test(error.message)

describe('looking a template up', () => {
  it("prefers the team's own name to one without a namespace, and that to an id", async () => {
    await using world = await openTemplates()
    const { service, team, other, templates } = world
    await world.add('mine')
    await world.add('public', other, true)
    await world.add('three', other, true)
    const find = async (text: string) => (await service.lookUp(team, text)).templateID
    assert.equal(await find('three'), 'three')
    await templates.addName('public', { namespace: null, alias: 'three' })
    assert.equal(await find('three'), 'public')
    await templates.addName('mine', { namespace: 'alpha', alias: 'three' })
    assert.equal(await find('three'), 'mine')
    assert.equal(await find(' THREE '), 'mine')
    assert.equal(await find('base'), 'basetemplate')
  })

  it('finds a name with a namespace only in that namespace', async () => {
    await using world = await openTemplates()
    const { service, team, other } = world
    await world.add('theirs', other, true)
    assert.equal((await service.lookUp(team, 'beta/theirs-name')).templateID, 'theirs')
    for (const text of ['theirs-name', 'alpha/theirs-name', 'beta/theirs', 'gamma/theirs-name']) {
      await assert.rejects(service.lookUp(team, text), failsWith('not_found'), text)
    }
  })

  it('gives different errors for a missing template, a hidden one, and an invalid name', async () => {
    await using world = await openTemplates()
    const { service, team, other } = world
    await world.add('theirs', other)
    await assert.rejects(service.lookUp(team, 'beta/theirs-name'), failsWith('permission_denied'))
    await assert.rejects(service.lookUp(team, 'theirs'), failsWith('permission_denied'))
    await assert.rejects(service.lookUp(team, 'none'), says('not_found', /^template 'none' not found$/))
    for (const bad of ['', 'a b', 'a/b/c', 'a:', ':a', '/a', 'ä']) {
      await assert.rejects(service.lookUp(team, bad), failsWith('invalid_argument'), bad)
    }
  })

  it('uses the named tag, or the default tag', async () => {
    await using world = await openTemplates()
    const { service, team } = world
    const buildID = await world.add('mine')
    await world.addBuild('mine', ['failed'], { status: 'error' })
    for (const text of ['mine', 'mine:default', `mine:${buildID}`, 'alpha/mine-name:DEFAULT']) {
      assert.equal((await service.lookUp(team, text)).templateID, 'mine', text)
    }
    const missing = says('not_found', /^tag 'v1' does not exist for template 'mine'$/)
    await assert.rejects(service.lookUp(team, 'mine:v1'), missing)
    await assert.rejects(service.lookUp(team, 'mine:failed'), failsWith('not_found'))
  })
})

describe('reading templates', () => {
  it("lists the team's templates in either order, page by page", async () => {
    await using world = await openTemplates()
    const { service, team, other, clock } = world
    for (const id of ['one', 'two', 'three']) {
      clock.advance(1000)
      await world.add(id)
    }
    await world.add('theirs', other, true)
    const ids = async (page: Parameters<TemplateService['list']>[1]) =>
      (await service.list(team, page)).map(({ template }) => template.templateID)
    assert.deepEqual(await ids({ order: 'asc', limit: 9 }), ['one', 'two', 'three'])
    assert.deepEqual(await ids({ order: 'desc', limit: 2 }), ['three', 'two'])
    const after = { createdAt: clock.now() - 1000, templateID: 'two' }
    assert.deepEqual(await ids({ order: 'desc', limit: 2, after }), ['one'])
    assert.deepEqual(await ids({ order: 'asc', limit: 2, after }), ['three'])
  })

  it('reads one with its builds, newest first, by id and by name', async () => {
    await using world = await openTemplates()
    const { service, team, clock } = world
    const first = await world.add('mine')
    clock.advance(1000)
    const failed = await world.addBuild('mine', ['default'], { status: 'error' })
    for (const text of ['mine', 'mine-name', 'alpha/mine-name']) {
      const { summary, builds } = await service.read(team, text, { limit: 9 })
      assert.deepEqual(
        builds.map(({ buildID }) => buildID),
        [failed, first],
      )
      assert.deepEqual([summary.build?.buildID, summary.buildStatus, summary.buildCount], [first, 'error', 2])
      assert.deepEqual(summary.names, [{ namespace: 'alpha', alias: 'mine-name' }])
    }
    const page = await service.read(team, 'mine', { limit: 1 })
    assert.equal(page.builds.length, 1)
  })

  it("rejects another team's template, even a public one, and the shared base template", async () => {
    await using world = await openTemplates()
    const { service, team, other } = world
    await world.add('theirs', other, true)
    const page = { limit: 1 }
    await assert.rejects(service.read(team, 'theirs', page), failsWith('permission_denied'))
    await assert.rejects(service.read(team, 'base', page), failsWith('permission_denied'))
    const unknown = says('not_found', /^Template nothing not found$/)
    await assert.rejects(service.read(team, 'nothing', page), unknown)
  })
})

describe('making a template public', () => {
  it('shows it to other teams under its full name, and hides it again', async () => {
    await using world = await openTemplates()
    const { service, team, other } = world
    await world.add('mine')
    const hidden = failsWith('permission_denied')
    await assert.rejects(service.lookUp(other, 'alpha/mine-name'), hidden)
    const names = await service.setPublic(team, 'mine', true, false)
    assert.deepEqual(names, [{ namespace: 'alpha', alias: 'mine-name' }])
    assert.equal((await service.lookUp(other, 'alpha/mine-name')).public, true)
    await assert.rejects(service.lookUp(other, 'mine-name'), failsWith('not_found'))
    await service.setPublic(team, 'mine', undefined, false)
    assert.equal((await service.lookUp(team, 'mine')).public, true)
    await service.setPublic(team, 'mine', false, false)
    await assert.rejects(service.lookUp(other, 'alpha/mine-name'), hidden)
  })

  it('adds a name without a namespace if that is wanted, once', async () => {
    await using world = await openTemplates()
    const { service, team, other } = world
    await world.add('mine')
    const both = [
      { namespace: null, alias: 'mine-name' },
      { namespace: 'alpha', alias: 'mine-name' },
    ]
    assert.deepEqual(await service.setPublic(team, 'mine', true, true), both)
    assert.deepEqual(await service.setPublic(team, 'mine', true, true), both)
    assert.equal((await service.lookUp(other, 'mine-name')).templateID, 'mine')
    assert.deepEqual(await service.setPublic(team, 'mine', false, true), both)
    await assert.rejects(service.lookUp(other, 'mine-name'), failsWith('permission_denied'))
  })

  it('adds no such name to a template that stays private', async () => {
    await using world = await openTemplates()
    await world.add('mine')
    assert.equal((await world.service.setPublic(world.team, 'mine', undefined, true)).length, 1)
    assert.equal((await world.service.setPublic(world.team, 'mine', false, true)).length, 1)
  })

  it('changes nothing when the name without a namespace is taken', async () => {
    await using world = await openTemplates()
    const { service, team, other, templates } = world
    await world.add('theirs', other, true)
    await world.add('mine')
    await templates.addName('theirs', { namespace: null, alias: 'mine-name' })
    await assert.rejects(service.setPublic(team, 'mine', true, true), failsWith('already_exists'))
    assert.equal((await service.lookUp(team, 'mine')).public, false)
  })

  it("is rejected for another team's template", async () => {
    await using world = await openTemplates()
    const { service, team, other } = world
    await world.add('theirs', other, true)
    await assert.rejects(service.setPublic(team, 'theirs', false, false), failsWith('permission_denied'))
    await assert.rejects(service.setPublic(team, 'base', false, false), failsWith('permission_denied'))
    await assert.rejects(service.setPublic(team, 'nothing', true, true), failsWith('not_found'))
    assert.equal((await service.lookUp(other, 'theirs')).public, true)
  })
})

describe('tags', () => {
  it('are set on the build that a name, a tag or an id means, and moved', async () => {
    await using world = await openTemplates()
    const { service, team } = world
    const first = await world.add('mine')
    const assigned = await service.assignTags(team, 'mine-name', ['v1', ' V1 ', 'stable'])
    assert.deepEqual(assigned, { buildID: first, tags: ['v1', 'stable'] })
    const second = await world.addBuild('mine', ['default'])
    assert.equal((await service.assignTags(team, 'alpha/mine-name', ['stable'])).buildID, second)
    assert.equal((await service.assignTags(team, 'mine:v1', ['old'])).buildID, first)
    assert.equal((await service.assignTags(team, `mine:${first}`, ['older'])).buildID, first)
    const listed = (await service.listTags(team, 'mine')).map(({ tag, buildID }) => [tag, buildID])
    assert.deepEqual(listed, [
      ['default', second],
      ['old', first],
      ['older', first],
      ['stable', second],
      ['v1', first],
    ])
  })

  it('are rejected without a finished build, a valid name or permission', async () => {
    await using world = await openTemplates()
    const { service, team, other } = world
    await world.add('mine')
    await world.add('theirs', other, true)
    await world.addBuild('mine', ['waits'], { status: 'waiting' })
    const tries: [string, string[], string, RegExp][] = [
      ['mine', [], 'invalid_argument', /^At least one tag is required$/],
      ['mine', [':x'], 'invalid_argument', /^Invalid tag: ':x'/],
      ['mine', ['x:'], 'invalid_argument', /^Invalid tag: 'x:'/],
      ['mine', [newUUID()], 'invalid_argument', /^Invalid tag/],
      ['mine:v1', ['x'], 'not_found', /^tag 'v1' does not exist/],
      ['mine:waits', ['x'], 'not_found', /^tag 'waits' does not exist/],
      ['nothing', ['x'], 'not_found', /nothing/],
      ['theirs', ['x'], 'permission_denied', /You don't have access/],
    ]
    for (const [target, tags, code, text] of tries) {
      await assert.rejects(service.assignTags(team, target, tags), says(code, text), target)
    }
    assert.equal((await service.listTags(team, 'mine')).length, 1)
  })

  it('are removed, and removing a missing tag is no error', async () => {
    await using world = await openTemplates()
    const { service, team, other } = world
    await world.add('mine')
    await world.add('theirs', other, true)
    await service.assignTags(team, 'mine', ['v1', 'v2'])
    await service.removeTags(team, 'mine-name', ['v1', 'v9'])
    const left = (await service.listTags(team, 'mine')).map(({ tag }) => tag)
    assert.deepEqual(left, ['default', 'v2'])
    const tries: [string, string[], string][] = [
      ['mine:v2', ['v2'], 'invalid_argument'],
      ['mine', ['default'], 'invalid_argument'],
      ['mine', ['v2', 'DEFAULT'], 'invalid_argument'],
      ['mine', [], 'invalid_argument'],
      ['mine', ['x:'], 'invalid_argument'],
      ['nothing', ['v2'], 'not_found'],
      ['theirs', ['v2'], 'permission_denied'],
    ]
    for (const [name, tags, code] of tries) {
      await assert.rejects(service.removeTags(team, name, tags), failsWith(code), `${name} ${tags}`)
    }
    assert.equal((await service.listTags(team, 'mine')).length, 2)
    await assert.rejects(service.listTags(team, 'theirs'), failsWith('permission_denied'))
    await assert.rejects(service.listTags(team, 'nothing'), failsWith('not_found'))
  })
})

describe('a name for a build', () => {
  it('belongs to the team, with its namespace or without', async () => {
    await using world = await openTemplates()
    const { team } = world
    const name = { namespace: null, alias: 'mine', tag: 'default' }
    assert.deepEqual(parseOwnName(team, ' Mine '), name)
    assert.deepEqual(parseOwnName(team, 'alpha/mine:v1'), { ...name, namespace: 'alpha', tag: 'v1' })
    const foreign = says('invalid_argument', /^Invalid name: 'beta' is not the namespace/)
    assert.throws(() => parseOwnName(team, 'beta/mine'), foreign)
    assert.throws(() => parseOwnName(team, 'a b'), says('invalid_argument', /^Invalid name/))
    assert.throws(() => parseOwnName(team, `mine:${newUUID()}`), says('invalid_argument', /^Invalid tag/))
  })
})
