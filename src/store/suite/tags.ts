import assert from 'node:assert/strict'
import { listLimits } from '../../core/team/list-limits.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import { aBuild, insertTeam, insertTemplate, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const notFound = (error: unknown) => isAppError(error, 'not_found')

export function tagSuite(storeTest: StoreTest): void {
  names(storeTest)
  assigning(storeTest)
  history(storeTest)
  removing(storeTest)
}

function names(storeTest: StoreTest): void {
  storeTest('a template is made public and private again, without another change', async (stores) => {
    const template = await insertTemplate(stores, { public: false })
    const other = await insertTemplate(stores, { public: false })
    const { templateID } = template
    await stores.templates.setPublic(templateID, true, time + 1)
    const published = { ...template, public: true, updatedAt: time + 1 }
    assert.deepEqual(await stores.templates.findByID(templateID), published)
    await stores.templates.setPublic(templateID, false, time + 2)
    assert.deepEqual(await stores.templates.findByID(templateID), { ...template, updatedAt: time + 2 })
    assert.deepEqual(await stores.templates.findByID(other.templateID), other)
    await assert.rejects(stores.templates.setPublic('nothing', true, time), notFound)
  })

  storeTest('names are added after the others of their kind, and once only', async (stores) => {
    const { templates } = stores
    const template = await insertTemplate(stores)
    const { templateID } = template
    const first = { namespace: 'rabbits', alias: 'z-first' }
    const second = { namespace: 'rabbits', alias: 'a-second' }
    const bare = { namespace: null, alias: 'z-first' }
    for (const name of [first, second, bare, first]) await templates.addName(templateID, name)
    assert.deepEqual(await templates.namesOf(templateID), [bare, first, second])
    assert.deepEqual((await templates.summaryOf(templateID))?.names, [bare, first, second])
    assert.deepEqual(await templates.findByAlias(null, 'z-first'), template)
    await assert.rejects(templates.addName('nothing', { namespace: null, alias: 'free' }), notFound)
    assert.equal(await templates.findByAlias(null, 'free'), undefined)
  })

  for (const namespace of [null, 'rabbits']) {
    const kind = namespace === null ? 'namespace-less' : 'namespaced'
    storeTest(
      `a ${kind} name of another template is not added, and stays with that template`,
      async (stores) => {
        const { templates } = stores
        const owner = await insertTemplate(stores)
        const { templateID } = await insertTemplate(stores)
        const name = { namespace, alias: 'web' }
        await templates.addName(owner.templateID, name)
        await assert.rejects(templates.addName(templateID, name), (error) => {
          assert.ok(isAppError(error, 'already_exists'))
          return error.message.includes(namespace === null ? "'web'" : "'rabbits/web'")
        })
        assert.deepEqual(await templates.findByAlias(namespace, 'web'), owner)
        assert.deepEqual(await templates.namesOf(templateID), [])
      },
    )
  }

  storeTest('of templates that claim one name at once, one gets it', async (stores) => {
    const { templates } = stores
    const name = { namespace: null, alias: 'web' }
    const claimants = await Promise.all(Array.from({ length: 8 }, () => insertTemplate(stores)))
    const claims = claimants.map(({ templateID }) => templates.addName(templateID, name))
    const refused = (await Promise.allSettled(claims)).filter(({ status }) => status === 'rejected')
    assert.equal(refused.length, 7)
    for (const outcome of refused as PromiseRejectedResult[]) {
      assert.ok(isAppError(outcome.reason, 'already_exists'), String(outcome.reason))
    }
  })

  storeTest('names that one template gets at once are all added', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const aliases = Array.from({ length: 8 }, (_, index) => `alias-${index}`)
    await Promise.all(aliases.map((alias) => templates.addName(templateID, { namespace: null, alias })))
    const names = await templates.namesOf(templateID)
    assert.deepEqual(names.map(({ alias }) => alias).sort(), aliases)
  })
}

function assigning(storeTest: StoreTest): void {
  storeTest(
    "an assigned tag means its new build, and the template's time of change is set",
    async (stores) => {
      const { templates } = stores
      const { templateID } = await insertTemplate(stores)
      const [older, newer] = [aBuild(templateID), aBuild(templateID)]
      await templates.insertBuild(older, ['default'])
      await templates.insertBuild(newer, ['default'])
      await templates.assignTags(templateID, older.buildID, ['default', 'stable'], time + 5)
      assert.deepEqual(await templates.findReadyBuild(templateID, 'default'), older)
      assert.deepEqual(await templates.findReadyBuild(templateID, 'stable'), older)
      assert.equal((await templates.findByID(templateID))?.updatedAt, time + 5)
      await templates.assignTags(templateID, newer.buildID, [], time + 6)
      assert.deepEqual(await templates.findReadyBuild(templateID, 'default'), older)
    },
  )

  storeTest("a tag is never assigned to another template's build, or to none", async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const other = await insertTemplate(stores)
    const theirs = aBuild(other.templateID)
    await templates.insertBuild(theirs, ['default'])
    await assert.rejects(templates.assignTags(templateID, theirs.buildID, ['v1'], time), notFound)
    await assert.rejects(templates.assignTags(templateID, newUUID(), ['v1'], time), notFound)
    await assert.rejects(templates.assignTags('nothing', theirs.buildID, ['v1'], time), notFound)
    assert.deepEqual(await templates.listTags(templateID), [])
    const own = { tag: 'default', buildID: theirs.buildID, assignedAt: time }
    assert.deepEqual(await templates.listTags(other.templateID), [own])
  })

  storeTest('tags that are assigned at once all exist', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const build = aBuild(templateID)
    await templates.insertBuild(build, [])
    const tags = Array.from({ length: 9 }, (_, index) => `v${index}`)
    await Promise.all(tags.map((tag) => templates.assignTags(templateID, build.buildID, [tag], time)))
    assert.deepEqual(
      (await templates.listTags(templateID)).map(({ tag }) => tag),
      tags,
    )
  })

  storeTest('the list of tags has the newest assignment of each whose build is ready', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const other = await insertTemplate(stores)
    const ready = [1, 2].map((moment) => aBuild(templateID, { createdAt: time + moment }))
    const failed = aBuild(templateID, { createdAt: time + 3, status: 'error' })
    await templates.insertBuild(ready[0]!, ['default', 'b', 'B', 'b-1', 'a.0'])
    await templates.insertBuild(ready[1]!, ['default', 'b'])
    await templates.insertBuild(failed, ['default', 'unborn'])
    await templates.insertBuild(aBuild(other.templateID), ['other'])
    await templates.assignTags(templateID, ready[0]!.buildID, ['b'], time + 9)
    const [first, second] = ready.map(({ buildID }) => buildID)
    assert.deepEqual(await templates.listTags(templateID), [
      { tag: 'B', buildID: first, assignedAt: time + 1 },
      { tag: 'a.0', buildID: first, assignedAt: time + 1 },
      { tag: 'b', buildID: first, assignedAt: time + 9 },
      { tag: 'b-1', buildID: first, assignedAt: time + 1 },
      { tag: 'default', buildID: second, assignedAt: time + 2 },
    ])
    assert.deepEqual(await templates.listTags('nothing'), [])
  })
}

function history(storeTest: StoreTest): void {
  storeTest('assignments to ready builds are listed newest first, of all tags or of one', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const other = await insertTemplate(stores)
    const [older, newer] = [aBuild(templateID), aBuild(templateID, { finishedAt: time + 9 })]
    await templates.insertBuild(older, ['v1', 'v2'])
    await templates.insertBuild(newer, ['v1'])
    await templates.insertBuild(aBuild(templateID, { status: 'building' }), ['v1'])
    await templates.insertBuild(aBuild(other.templateID), ['v1'])
    const found = await templates.listReadyAssignments(templateID)
    assert.deepEqual(
      found.map(({ tag, buildID }) => [tag, buildID]),
      [
        ['v1', newer.buildID],
        ['v2', older.buildID],
        ['v1', older.buildID],
      ],
    )
    const { buildCreatedAt, buildFinishedAt, sequence } = found[0]!
    assert.deepEqual([buildCreatedAt, buildFinishedAt], [newer.createdAt, time + 9])
    assert.ok(sequence > found[1]!.sequence)
    assert.deepEqual(await templates.listReadyAssignments(templateID, 'v2'), [found[1]])
  })

  storeTest('the default templates are those of no team, by ID', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const ours = [
      await insertTemplate(stores, { teamID: null }),
      await insertTemplate(stores, { teamID: null }),
    ]
    await insertTemplate(stores, { teamID })
    const expected = ours.map(({ templateID }) => templateID).sort()
    const listed = (await stores.templates.listDefaultTemplates()).map(({ template }) => template.templateID)
    assert.deepEqual(
      listed.filter((one) => expected.includes(one)),
      expected,
    )
    for (const { template } of await stores.templates.listDefaultTemplates())
      assert.equal(template.teamID, null)
  })
}

function removing(storeTest: StoreTest): void {
  storeTest('assignments that no longer count are forgotten, and none that does', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const first = aBuild(templateID, { status: 'ready', createdAt: time })
    const waiting = aBuild(templateID, { status: 'waiting', createdAt: time + 1 })
    for (const build of [first, waiting]) await templates.insertBuild(build, ['v1', 'stable'])
    for (let round = 0; round < 3 * listLimits.assignmentsPerTag; round++) {
      await templates.assignTags(templateID, first.buildID, ['v1'], time + 2 + round)
      // Builds that are not ready hide no earlier one, however many they are.
      await templates.assignTags(templateID, waiting.buildID, ['stable'], time + 2 + round)
    }
    const found = await templates.listTags(templateID)
    assert.deepEqual(
      found.map(({ tag, buildID }) => [tag, buildID]),
      [
        ['stable', first.buildID],
        ['v1', first.buildID],
      ],
    )
    assert.equal((await templates.findReadyBuild(templateID, 'stable'))?.buildID, first.buildID)
  })

  storeTest(
    'a removed tag is removed with all its assignments, and only from that template',
    async (stores) => {
      const { templates } = stores
      const { templateID } = await insertTemplate(stores)
      const other = await insertTemplate(stores)
      const builds = [aBuild(templateID), aBuild(templateID)]
      for (const build of builds) await templates.insertBuild(build, ['default', 'v1', 'v2', 'v3'])
      const theirs = aBuild(other.templateID)
      await templates.insertBuild(theirs, ['v1'])
      await templates.removeTags(templateID, ['v1', 'v3', 'not-there'])
      await templates.removeTags(templateID, [])
      await templates.removeTags('nothing', ['v1'])
      assert.deepEqual(
        (await templates.listTags(templateID)).map(({ tag }) => tag),
        ['default', 'v2'],
      )
      assert.equal(await templates.findReadyBuild(templateID, 'v1'), undefined)
      assert.deepEqual(await templates.findBuild(builds[0]!.buildID), builds[0])
      assert.deepEqual(await templates.findReadyBuild(other.templateID, 'v1'), theirs)
    },
  )

  storeTest('a tag that is assigned after a removal is the newest', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const [older, newer] = [aBuild(templateID), aBuild(templateID)]
    await templates.insertBuild(older, ['default'])
    await templates.insertBuild(newer, ['v1'])
    await templates.removeTags(templateID, ['v1'])
    await templates.assignTags(templateID, newer.buildID, ['default', 'v1'], time)
    assert.deepEqual(await templates.findReadyBuild(templateID, 'default'), newer)
    assert.deepEqual(await templates.findReadyBuild(templateID, 'v1'), newer)
  })
}
