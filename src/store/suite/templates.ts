import assert from 'node:assert/strict'
import type { TemplateBuild } from '../../core/template/template.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import { aBuild, aTemplate, insertTeam, insertTemplate, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

export function templateSuite(storeTest: StoreTest): void {
  storeTest('a failed insert of the first build leaves no template, and its name is free', async (stores) => {
    const { templates } = stores
    const { teamID, slug } = await insertTeam(stores)
    const known = aBuild((await insertTemplate(stores)).templateID)
    await templates.insertBuild(known, ['default'])
    const template = aTemplate({ teamID })
    const fresh = { template, names: [{ namespace: slug, alias: 'mine' }] }
    const limit = { teamID, statuses: ['ready'], max: 1 } as const
    const sameID = aBuild(template.templateID, { buildID: known.buildID })
    const isNameInUse = (error: unknown) => isAppError(error, 'already_exists')
    await assert.rejects(templates.insertBuild(sameID, ['default'], fresh), isNameInUse)
    await assert.rejects(templates.insertBuildWithin(limit, sameID, ['default'], fresh), isNameInUse)
    assert.equal(await templates.findByAlias(slug, 'mine'), undefined)
    assert.equal(await templates.findByID(template.templateID), undefined)
    const build = aBuild(template.templateID)
    assert.equal(await templates.insertBuildWithin(limit, build, ['default'], fresh), true)
    assert.deepEqual(await templates.findByAlias(slug, 'mine'), template)
  })

  storeTest('a template is found by its id and by each of its names', async (stores) => {
    const { templates } = stores
    const team = await insertTeam(stores)
    const template = aTemplate({ teamID: team.teamID, public: false, lastSpawnedAt: time, spawnCount: 3 })
    const names = [
      { namespace: 'rabbits', alias: 'web' },
      { namespace: null, alias: 'public-web' },
    ]
    await templates.insertTemplate(template, names)
    assert.deepEqual(await templates.findByID(template.templateID), template)
    assert.deepEqual(await templates.findByAlias('rabbits', 'web'), template)
    assert.deepEqual(await templates.findByAlias(null, 'public-web'), template)
    assert.equal(await templates.findByAlias(null, 'web'), undefined)
    assert.equal(await templates.findByAlias('rabbits', 'public-web'), undefined)
    assert.equal(await templates.findByID('nothing'), undefined)
  })

  storeTest('a template is found by the first of several names, or else by its id', async ({ templates }) => {
    const [own, other, bare] = [aTemplate(), aTemplate(), aTemplate()]
    await templates.insertTemplate(own, [
      { namespace: 'rabbits', alias: 'z-first' },
      { namespace: 'rabbits', alias: 'a-second' },
    ])
    await templates.insertTemplate(other, [
      { namespace: 'hares', alias: 'web' },
      { namespace: null, alias: 'z-first' },
      { namespace: null, alias: 'a-third' },
    ])
    await templates.insertTemplate(bare, [])
    const inBoth = [
      { namespace: 'rabbits', alias: 'z-first' },
      { namespace: null, alias: 'z-first' },
    ]
    assert.deepEqual(await templates.findNamed(inBoth), { template: own, alias: 'z-first' })
    assert.deepEqual(await templates.findNamed(inBoth.toReversed()), { template: other, alias: 'z-first' })
    // The alias is the first name of the template, those without a namespace first.
    const byOther = [{ namespace: 'hares', alias: 'web' }]
    assert.deepEqual(await templates.findNamed(byOther, own.templateID), {
      template: other,
      alias: 'z-first',
    })
    const unknown = [{ namespace: 'hares', alias: 'nothing' }]
    assert.equal(await templates.findNamed(unknown), undefined)
    assert.equal(await templates.findNamed(unknown, 'nothing'), undefined)
    assert.deepEqual(await templates.findNamed(unknown, own.templateID), { template: own, alias: 'z-first' })
    assert.deepEqual(await templates.findNamed(unknown, bare.templateID), { template: bare, alias: null })
  })

  storeTest('the names of a template also begin with those without a namespace', async ({ templates }) => {
    const template = aTemplate()
    const first = { namespace: 'rabbits', alias: 'z-first' }
    const second = { namespace: 'hares', alias: 'a-second' }
    const bare = { namespace: null, alias: 'bare' }
    await templates.insertTemplate(template, [first, second, bare])
    await templates.insertTemplate(aTemplate(), [{ namespace: 'rabbits', alias: 'other' }])
    assert.deepEqual(await templates.namesOf(template.templateID), [bare, first, second])
    assert.deepEqual(await templates.namesOf('nothing'), [])
  })

  for (const namespace of [null, 'rabbits']) {
    const kind = namespace === null ? 'namespace-less' : 'namespaced'
    storeTest(
      `a taken ${kind} name is rejected with already_exists, and the template is not half-made`,
      async ({ templates }) => {
        await templates.insertTemplate(aTemplate(), [{ namespace, alias: 'web' }])
        const second = aTemplate()
        const names = [
          { namespace, alias: 'free' },
          { namespace, alias: 'web' },
        ]
        await assert.rejects(templates.insertTemplate(second, names), (error) => {
          assert.ok(isAppError(error, 'already_exists'))
          return error.message.includes("web'")
        })
        assert.equal(await templates.findByID(second.templateID), undefined)
        assert.equal(await templates.findByAlias(namespace, 'free'), undefined)
      },
    )
  }

  storeTest('the same alias may be used in different namespaces', async ({ templates }) => {
    const mine = aTemplate()
    const theirs = aTemplate()
    await templates.insertTemplate(mine, [{ namespace: 'rabbits', alias: 'web' }])
    await templates.insertTemplate(theirs, [{ namespace: 'hares', alias: 'web' }])
    assert.equal((await templates.findByAlias('hares', 'web'))?.templateID, theirs.templateID)
  })

  storeTest('a ready build is found by its tag and is read back unchanged', async (stores) => {
    const { templateID } = await insertTemplate(stores)
    const serviceContext = { user: 'root', workdir: '/srv', envVars: { A: '0' } }
    const service = { startCmd: 'serve', serviceContext }
    const variables = { envVars: { A: '1', 'B C': '"2"' }, sandboxEnvVars: { A: '3' } }
    const build = aBuild(templateID, { ...service, ...variables })
    await stores.templates.insertBuild(build, ['default', 'v1'])
    assert.deepEqual(await stores.templates.findReadyBuild(templateID, 'default'), build)
    assert.deepEqual(await stores.templates.findReadyBuild(templateID, 'v1'), build)
    assert.equal(await stores.templates.findReadyBuild(templateID, 'v2'), undefined)
  })

  storeTest('a tag means its newest assignment whose build is ready', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const statuses: TemplateBuild['status'][] = ['ready', 'ready', 'waiting', 'error']
    const builds = statuses.map((status) => aBuild(templateID, { status }))
    for (const build of builds) await templates.insertBuild(build, ['default'])
    const found = async () => (await templates.findReadyBuild(templateID, 'default'))?.buildID
    assert.equal(await found(), builds[1]!.buildID)
    await templates.updateBuild(builds[2]!.buildID, { status: 'ready' })
    assert.equal(await found(), builds[2]!.buildID)
  })

  storeTest('parallel builds of one template all get their tag', async (stores) => {
    const { templateID } = await insertTemplate(stores)
    const builds = Array.from({ length: 12 }, (_, index) => ({ build: aBuild(templateID), tag: `v${index}` }))
    await Promise.all(builds.map(({ build, tag }) => stores.templates.insertBuild(build, ['default', tag])))
    for (const { build, tag } of builds) {
      assert.deepEqual(await stores.templates.findReadyBuild(templateID, tag), build)
    }
  })

  storeTest(
    'a build id in place of a tag selects that build, if it is ready and of that template',
    async (stores) => {
      const { templates } = stores
      const { templateID } = await insertTemplate(stores)
      const other = await insertTemplate(stores)
      const ready = aBuild(templateID)
      const waiting = aBuild(templateID, { status: 'waiting' })
      await templates.insertBuild(ready, [])
      await templates.insertBuild(waiting, [])
      assert.deepEqual(await templates.findReadyBuild(templateID, ready.buildID), ready)
      assert.equal(await templates.findReadyBuild(templateID, waiting.buildID), undefined)
      assert.equal(await templates.findReadyBuild(other.templateID, ready.buildID), undefined)
      assert.equal(await templates.findReadyBuild(templateID, newUUID()), undefined)
    },
  )

  storeTest('an update changes only the named fields and may set null', async (stores) => {
    const { templateID } = await insertTemplate(stores)
    const build = aBuild(templateID, { startCmd: 'serve' })
    await stores.templates.insertBuild(build, ['default'])
    const changes = { startCmd: null, envVars: { X: 'y' }, updatedAt: time + 1 }
    await stores.templates.updateBuild(build.buildID, changes)
    await stores.templates.updateBuild(build.buildID, {})
    assert.deepEqual(await stores.templates.findReadyBuild(templateID, 'default'), { ...build, ...changes })
  })

  storeTest(
    'builds of unknown templates and updates of unknown builds are rejected with not_found',
    async ({ templates }) => {
      const notFound = (error: unknown) => isAppError(error, 'not_found')
      await assert.rejects(templates.insertBuild(aBuild('nothing'), ['default']), notFound)
      await assert.rejects(templates.updateBuild(newUUID(), { status: 'error' }), notFound)
    },
  )

  storeTest('parallel spawns are all counted', async (stores) => {
    const { templateID } = await insertTemplate(stores)
    const times = Array.from({ length: 10 }, () => time + 7)
    await Promise.all(times.map((at) => stores.templates.recordCreates(templateID, 2, at)))
    const template = await stores.templates.findByID(templateID)
    assert.equal(template?.spawnCount, 20)
    assert.equal(template?.lastSpawnedAt, time + 7)
  })
}
