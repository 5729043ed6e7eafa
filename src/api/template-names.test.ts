import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { until } from '../../test/support/domain.ts'
import { another, built, requested } from '../../test/support/template-calls.ts'
import { envdVersion } from '../contract/constants.ts'

const nil = '00000000-0000-0000-0000-000000000000'
const failing = { fromImage: 'debian:12', steps: [{ type: 'RUN', args: ['fail'] }] }

describe('reading templates', () => {
  it('shows a template under its name and as a snapshot, with one id, if it was built as both', async () => {
    await using warren = await openApi()
    const list = async (path: string) => (await warren.ask('GET', path)).json()
    const path = `/sandboxes/${await warren.create()}/snapshots`
    assert.equal((await warren.ask('POST', path, { body: { name: 'both:kept' } })).status, 201)
    assert.deepEqual(await list('/templates'), [])
    const { templateID, buildID } = await built(warren, 'both')
    assert.equal((await list('/templates/aliases/both')).templateID, templateID)
    const [shown, ...more] = await list('/templates')
    assert.deepEqual(
      [shown.templateID, shown.buildID, shown.names, more],
      [templateID, buildID, ['alpha/both'], []],
    )
    const snapshots: { snapshotID: string }[] = await list('/snapshots')
    assert.deepEqual(
      snapshots.map(({ snapshotID }) => snapshotID),
      ['alpha/both:kept'],
    )
    for (const reference of ['both', 'both:kept']) await warren.create({ templateID: reference })
  })

  it('finds the snapshots of a sandbox by either form of its id, with their date, source and size', async () => {
    await using warren = await openApi()
    const id = await warren.create()
    const { snapshotID } = (await warren.ask('POST', `/sandboxes/${id}/snapshots`, { body: {} })).json()
    const { cpuCount, memoryMB, diskSizeMB } = (await warren.ask('GET', `/sandboxes/${id}`)).json()
    const createdAt = new Date(warren.fixture.clock.now()).toISOString()
    const listed = { snapshotID, names: [], createdAt, sandboxID: id, cpuCount, memoryMB, diskSizeMB }
    for (const [sandboxID, found] of [
      [id, [listed]],
      [`${id}-6532622b`, [listed]],
      ['inone', []],
    ] as const) {
      assert.deepEqual((await warren.ask('GET', `/snapshots?sandboxID=${sandboxID}`)).json(), found)
    }
    assert.equal((await warren.ask('GET', '/snapshots?sandboxID=A')).status, 400)
  })

  it('shows a template without a build with zeros, and otherwise its newest ready build', async () => {
    await using warren = await openApi()
    const { clock, create } = { ...warren.fixture, ...warren }
    const { templateID } = await requested(warren, 'mine')
    const createdAt = new Date(clock.now()).toISOString()
    const bare = {
      templateID,
      buildID: nil,
      cpuCount: 0,
      memoryMB: 0,
      diskSizeMB: 0,
      public: false,
      aliases: ['mine'],
      names: ['alpha/mine'],
      createdAt,
      updatedAt: createdAt,
      createdBy: null,
      lastSpawnedAt: null,
      spawnCount: 0,
      buildCount: 1,
      envdVersion: '',
      buildStatus: 'waiting',
    }
    assert.deepEqual((await warren.ask('GET', '/templates')).json(), [bare])
    assert.deepEqual((await warren.ask('GET', '/v2/templates')).json(), [bare])
    clock.advance(1000)
    const good = await built(warren, 'mine', undefined, { cpuCount: 4 })
    clock.advance(1000)
    const bad = await built(warren, 'mine', failing)
    await create({ templateID: 'mine' })
    const spawnedAt = new Date(clock.now()).toISOString()
    const read = async () => (await warren.ask('GET', '/v2/templates')).json()[0]
    // Starts are counted a little later.
    clock.advance(1000)
    await until(async () => (await read()).spawnCount === 1)
    const shown = await read()
    assert.deepEqual(
      [shown.buildID, shown.cpuCount, shown.memoryMB, shown.diskSizeMB, shown.envdVersion],
      [good.buildID, 4, 1024, 1024, envdVersion],
    )
    assert.deepEqual([shown.buildStatus, shown.buildCount, shown.spawnCount], ['error', 3, 1])
    assert.equal(shown.lastSpawnedAt, spawnedAt)
    const { builds, ...template } = (await warren.ask('GET', `/templates/${templateID}`)).json()
    assert.deepEqual(template, shown)
    assert.deepEqual(
      builds.map(({ buildID, status }: { buildID: string; status: string }) => [buildID, status]).slice(0, 2),
      [
        [bad.buildID, 'error'],
        [good.buildID, 'ready'],
      ],
    )
    const time = spawnedAt
    assert.deepEqual(builds[0], {
      buildID: bad.buildID,
      status: 'error',
      createdAt: time,
      updatedAt: time,
      finishedAt: time,
      cpuCount: 2,
      memoryMB: 1024,
      diskSizeMB: 1024,
      envdVersion,
    })
  })

  it('pages through templates and through builds, newest first', async () => {
    await using warren = await openApi()
    const { clock } = warren.fixture
    for (const name of ['one', 'two', 'three']) {
      clock.advance(1000)
      await requested(warren, name)
    }
    const aliases = (body: { aliases: string[] }[]) => body.map((each) => each.aliases[0])
    assert.deepEqual(aliases((await warren.ask('GET', '/templates')).json()), ['one', 'two', 'three'])
    const first = await warren.ask('GET', '/v2/templates?limit=2')
    assert.deepEqual(aliases(first.json()), ['three', 'two'])
    const token = String(first.headers['x-next-token'])
    const last = await warren.ask('GET', `/v2/templates?limit=2&nextToken=${token}`)
    assert.deepEqual(aliases(last.json()), ['one'])
    assert.equal(last.headers['x-next-token'], undefined)
    for (const tag of ['a', 'b']) {
      clock.advance(1000)
      await requested(warren, 'one', { tags: [tag] })
    }
    const path = `/templates/one?limit=2`
    const page = await warren.ask('GET', path)
    assert.equal(page.json().builds.length, 2)
    const rest = await warren.ask('GET', `${path}&nextToken=${page.headers['x-next-token']}`)
    assert.equal(rest.json().builds.length, 1)
    assert.equal(rest.headers['x-next-token'], undefined)
    for (const query of ['limit=0', 'limit=101', 'nextToken=!', 'limit=x']) {
      assert.equal((await warren.ask('GET', `/v2/templates?${query}`)).status, 400, query)
      assert.equal((await warren.ask('GET', `/templates/one?${query}`)).status, 400, query)
    }
  })

  it('is for the team of the key alone', async () => {
    await using warren = await openApi()
    const { templateID } = await requested(warren, 'mine')
    const other = await another(warren)
    assert.deepEqual((await warren.ask('GET', '/v2/templates', other)).json(), [])
    assert.deepEqual((await warren.ask('GET', '/templates', other)).json(), [])
    await warren.ask('PATCH', `/v2/templates/${templateID}`, { body: { public: true } })
    assert.equal((await warren.ask('GET', `/templates/${templateID}`, other)).status, 403)
    const unknown = await warren.ask('GET', '/templates/nothing')
    assert.deepEqual([unknown.status, unknown.json().message], [404, 'Template nothing not found'])
    for (const path of ['/templates', '/v2/templates']) {
      assert.equal((await warren.ask('GET', `${path}?teamID=alpha`)).json().length, 1)
      assert.equal((await warren.ask('GET', `${path}?teamID=team-alpha`)).json().length, 1)
      assert.equal((await warren.ask('GET', `${path}?teamID=beta`)).status, 400)
      const nobody = await warren.ask('GET', path, { headers: { 'x-api-key': '' } })
      assert.equal(nobody.status, 401)
    }
  })
})

describe('making a template public', () => {
  it('answers with its names, and changes nothing for an empty body', async () => {
    await using warren = await openApi()
    const { templateID } = await requested(warren, 'mine')
    const path = `/v2/templates/${templateID}`
    const isPublic = async () => (await warren.ask('GET', '/templates/aliases/mine')).json().public
    const answer = await warren.ask('PATCH', path, { body: { public: true } })
    assert.deepEqual([answer.status, answer.json()], [200, { names: ['alpha/mine'] }])
    assert.equal(await isPublic(), true)
    for (const more of [{ body: {} }, {}]) {
      const unchanged = await warren.ask('PATCH', path, more)
      assert.deepEqual([unchanged.status, unchanged.json()], [200, { names: ['alpha/mine'] }])
    }
    assert.equal(await isPublic(), true)
    await warren.ask('PATCH', path, { body: { public: false } })
    assert.equal(await isPublic(), false)
    assert.equal((await warren.ask('PATCH', path, { body: { public: 'yes' } })).status, 400)
  })

  it('gives old clients the name without a namespace as well, and an empty body', async () => {
    await using warren = await openApi()
    const other = await another(warren)
    const { templateID } = await requested(warren, 'mine')
    const answer = await warren.ask('PATCH', `/templates/${templateID}`, { body: { public: true } })
    assert.deepEqual([answer.status, answer.body], [200, ''])
    const found = await warren.ask('GET', '/templates/aliases/mine', other)
    assert.deepEqual(found.json(), { templateID, public: true })
    const { names, aliases } = (await warren.ask('GET', `/templates/${templateID}`)).json()
    assert.deepEqual([names, aliases], [['mine', 'alpha/mine'], ['mine']])
  })

  it("is rejected for another team's template, and for a missing one", async () => {
    await using warren = await openApi()
    const { templateID } = await requested(warren, 'mine')
    const other = await another(warren)
    for (const version of ['', '/v2']) {
      const body = { public: true }
      const theirs = await warren.ask('PATCH', `${version}/templates/${templateID}`, { body, ...other })
      assert.equal(theirs.status, 403)
      assert.equal((await warren.ask('PATCH', `${version}/templates/nothing`, { body })).status, 404)
      assert.equal((await warren.ask('PATCH', `${version}/templates/base`, { body })).status, 403)
    }
  })
})

describe('looking up a name', () => {
  it('finds the template, its namespace and its tags', async () => {
    await using warren = await openApi()
    const { templateID } = await built(warren, 'mine', undefined, { tags: ['v1'] })
    for (const alias of ['mine', 'alpha%2Fmine', 'mine:v1', 'mine:default', templateID]) {
      const answer = await warren.ask('GET', `/templates/aliases/${alias}`)
      assert.deepEqual([answer.status, answer.json()], [200, { templateID, public: false }], alias)
    }
    const base = await warren.ask('GET', '/templates/aliases/base')
    assert.deepEqual(base.json(), { templateID: 'basetemplate', public: true })
  })

  it('gives different errors for a missing template, a hidden one, and an invalid name', async () => {
    await using warren = await openApi()
    await requested(warren, 'mine', { tags: ['v1'] })
    const other = await another(warren)
    const tag = await warren.ask('GET', '/templates/aliases/mine:v1')
    assert.equal(tag.status, 404)
    assert.equal(tag.json().message, "tag 'v1' does not exist for template 'mine'")
    assert.equal((await warren.ask('GET', '/templates/aliases/none')).status, 404)
    assert.equal((await warren.ask('GET', '/templates/aliases/mine', other)).status, 404)
    assert.equal((await warren.ask('GET', '/templates/aliases/alpha%2Fmine', other)).status, 403)
    for (const templateID of ['alpha/mine', 'alpha/mine:v1']) {
      const create = await warren.ask('POST', '/v2/sandboxes', { ...other, body: { templateID } })
      const hidden = { code: 403, message: `You don't have access to template '${templateID}'` }
      assert.deepEqual([create.status, create.json()], [403, hidden])
    }
    for (const bad of ['a%20b', 'a:', '%2Fa', 'a%2Fb%2Fc']) {
      assert.equal((await warren.ask('GET', `/templates/aliases/${bad}`)).status, 400, bad)
    }
  })
})

describe('tags over the API', () => {
  it('are set, listed and removed', async () => {
    await using warren = await openApi()
    const { clock } = warren.fixture
    const { templateID, buildID } = await built(warren, 'mine')
    const first = new Date(clock.now()).toISOString()
    clock.advance(1000)
    const given = await warren.ask('POST', '/templates/tags', {
      body: { target: 'mine', tags: ['v2', 'v1'] },
    })
    assert.deepEqual([given.status, given.json()], [201, { buildID, tags: ['v2', 'v1'] }])
    const createdAt = new Date(clock.now()).toISOString()
    const listed = await warren.ask('GET', `/templates/${templateID}/tags`)
    assert.deepEqual(listed.json(), [
      { tag: 'default', buildID, createdAt: first },
      { tag: 'v1', buildID, createdAt },
      { tag: 'v2', buildID, createdAt },
    ])
    const body = { name: 'alpha/mine', tags: ['v1', 'never'] }
    const removed = await warren.ask('DELETE', '/templates/tags', { body })
    assert.deepEqual([removed.status, removed.body], [204, ''])
    assert.equal((await warren.ask('GET', '/templates/mine/tags')).json().length, 2)
    assert.equal((await warren.ask('POST', '/v2/sandboxes', { body: { templateID: 'mine:v2' } })).status, 201)
    const gone = await warren.ask('POST', '/v2/sandboxes', { body: { templateID: 'mine:v1' } })
    assert.equal(gone.status, 404)
  })

  it('are rejected, each with its own reason', async () => {
    await using warren = await openApi()
    const { templateID } = await built(warren, 'mine')
    const other = await another(warren)
    const give = (target: unknown, tags: unknown, more = {}) =>
      warren.ask('POST', '/templates/tags', { body: { target, tags }, ...more })
    const assign = (name: unknown, tags: unknown, more = {}) =>
      warren.ask('DELETE', '/templates/tags', { body: { name, tags }, ...more })
    const tooMany = Array.from({ length: 101 }, (_, at) => `v${at}`)
    const refused: [ReturnType<typeof give>, number, RegExp][] = [
      [give('mine', []), 400, /^At least one tag is required$/],
      [give('mine', [':x']), 400, /^Invalid tag: /],
      [give('mine', ['name:']), 400, /^Invalid tag: /],
      [give('mine', tooMany), 400, /body\/tags must NOT have more than 100 items/],
      [assign('mine', tooMany), 400, /body\/tags must NOT have more than 100 items/],
      [warren.ask('POST', '/v3/templates', { body: { name: 'mine', tags: tooMany } }), 400, /100 items/],
      [give('none', ['x']), 404, /none/],
      [give('mine:none', ['x']), 404, /^tag 'none' does not exist/],
      [give('alpha/mine', ['x'], other), 403, /You don't have access/],
      [give('mine', 'x'), 400, /tags/],
      [give(undefined, ['x']), 400, /target/],
      [assign('mine', []), 400, /^At least one tag is required$/],
      [assign('mine:v1', ['v1']), 400, /without a tag/],
      [assign('mine', ['default']), 400, /cannot be removed/],
      [assign('none', ['v1']), 404, /none/],
      [assign('alpha/mine', ['v1'], other), 403, /You don't have access/],
      [warren.ask('GET', '/templates/none/tags'), 404, /none/],
      [warren.ask('GET', `/templates/${templateID}/tags`, other), 403, /You don't have access/],
    ]
    for (const [asking, status, says] of refused) {
      const answer = await asking
      assert.equal(answer.status, status, answer.body)
      assert.match(answer.json().message, says)
    }
  })
})
