import assert from 'node:assert/strict'
import type { BuildStatus, TemplateBuild } from '../../core/template/template.ts'
import type { TemplateStore } from '../../core/template/template-store.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import { aBuild, aTemplate, insertTeam, insertTemplate, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const reason = { message: 'it broke', step: '3' }
const statuses: BuildStatus[] = ['waiting', 'building', 'ready', 'error']

export function buildSuite(storeTest: StoreTest): void {
  contents(storeTest)
  transitions(storeTest)
  superseding(storeTest)
  limits(storeTest)
  listing(storeTest)
}

function contents(storeTest: StoreTest): void {
  storeTest('a build keeps its layers in order, and the reason of its failure', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const layers = ['sha256:b', 'sha256:a', 'sha256:b']
    const builds = [
      aBuild(templateID, { rootFolder: null, layers, reason }),
      aBuild(templateID, { rootFolder: null, layers: [], reason: { message: '', step: null } }),
    ]
    for (const build of builds) {
      await templates.insertBuild(build, [])
      assert.deepEqual(await templates.findBuild(build.buildID), build)
    }
  })

  storeTest('a build stores its start request until it starts', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const step = { type: 'RUN' as const, args: ['printf "\\0"\n\0'], filesHash: null, force: false }
    const startRequest = {
      from: { image: 'debian:12' },
      steps: [step],
      startCmd: 'serve',
      readyCmd: null,
      force: false,
    }
    const build = aBuild(templateID, { status: 'waiting', startRequest })
    await templates.insertBuild(build, [])
    assert.deepEqual(await templates.findBuild(build.buildID), build)
    const unchanged = await templates.transitionBuild(build.buildID, ['waiting'], 'waiting', {
      updatedAt: time + 1,
    })
    assert.deepEqual(unchanged?.startRequest, startRequest)
    const changes = { updatedAt: time + 2, startRequest: null }
    const transitioned = await templates.transitionBuild(build.buildID, ['waiting'], 'building', changes)
    assert.equal(transitioned?.startRequest, null)
  })

  storeTest('a failure is stored even when its message has a NUL', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const build = aBuild(templateID, { status: 'building' })
    await templates.insertBuild(build, [])
    const changes = { reason: { message: 'bad\0byte\0', step: '1' } }
    const transitioned = await templates.transitionBuild(build.buildID, ['building'], 'error', changes)
    assert.deepEqual(transitioned?.reason, { message: 'bad\uFFFDbyte\uFFFD', step: '1' })
  })

  storeTest('layers and reason can be set and cleared, and other updates keep them', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const build = aBuild(templateID)
    await templates.insertBuild(build, [])
    const after = async (changes: Partial<TemplateBuild>) => {
      await templates.updateBuild(build.buildID, changes)
      const found = await templates.findBuild(build.buildID)
      return { layers: found?.layers, reason: found?.reason }
    }
    const layers = ['sha256:a']
    assert.deepEqual(await after({ layers, reason }), { layers, reason })
    assert.deepEqual(await after({ updatedAt: time + 1 }), { layers, reason })
    const other = { message: 'otherwise', step: null }
    assert.deepEqual(await after({ reason: other }), { layers, reason: other })
    assert.deepEqual(await after({ layers: null, reason: null }), { layers: null, reason: null })
  })
}

function transitions(storeTest: StoreTest): void {
  storeTest('a build moves with its changes, and only from a named status', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    for (const status of statuses) {
      const build = aBuild(templateID, { status, finishedAt: null })
      const other = aBuild(templateID, { status, finishedAt: null })
      await templates.insertBuild(build, [])
      await templates.insertBuild(other, [])
      const { buildID } = build
      const changes = { reason, finishedAt: time + 4, layers: ['sha256:a'] }
      const rest = statuses.filter((from) => from !== status)
      assert.equal(await templates.transitionBuild(buildID, rest, 'error', changes), undefined)
      assert.equal(await templates.transitionBuild(buildID, [], 'error', changes), undefined)
      assert.deepEqual(await templates.findBuild(buildID), build)
      const transitioned = await templates.transitionBuild(buildID, ['waiting', status], 'error', changes)
      assert.deepEqual(transitioned, { ...build, ...changes, status: 'error' })
      assert.deepEqual(await templates.findBuild(buildID), transitioned)
      assert.deepEqual(await templates.findBuild(other.buildID), other)
    }
    assert.equal(await templates.transitionBuild(newUUID(), statuses, 'error', {}), undefined)
  })

  storeTest('of many that move a build at once, one succeeds', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const { buildID } = aBuild(templateID)
    await templates.insertBuild(aBuild(templateID, { buildID, status: 'waiting' }), ['default'])
    const targets: BuildStatus[] = ['building', 'error', 'building', 'error', 'building', 'error']
    const transitioned = await Promise.all(
      targets.map((to) => templates.transitionBuild(buildID, ['waiting'], to, {})),
    )
    const winners = transitioned.filter((build) => build !== undefined)
    assert.equal(winners.length, 1)
    assert.deepEqual(await templates.findBuild(buildID), winners[0])
  })
}

async function insertWaiting(templates: TemplateStore, templateID: string, tags: string[]) {
  const build = aBuild(templateID, { status: 'waiting', finishedAt: null })
  await templates.insertBuild(build, tags)
  return build
}

function superseding(storeTest: StoreTest): void {
  storeTest(
    'waiting builds with one of the tags are ended with the reason, and others are not',
    async (stores) => {
      const { templates } = stores
      const { templateID } = await insertTemplate(stores)
      const elsewhere = await insertTemplate(stores)
      const ended = [
        await insertWaiting(templates, templateID, ['default']),
        await insertWaiting(templates, templateID, ['other', 'v1', 'default']),
      ]
      const remaining = [
        await insertWaiting(templates, templateID, ['other']),
        await insertWaiting(templates, templateID, []),
        await insertWaiting(templates, elsewhere.templateID, ['default']),
      ]
      for (const status of statuses.filter((one) => one !== 'waiting')) {
        const build = aBuild(templateID, { status })
        await templates.insertBuild(build, ['default'])
        remaining.push(build)
      }
      const newest = await insertWaiting(templates, templateID, ['default', 'v1'])
      assert.deepEqual(await templates.supersede(newest, [], reason, time + 7), [])
      const supersededIDs = await templates.supersede(newest, ['default', 'v1'], reason, time + 7)
      assert.deepEqual(supersededIDs.sort(), ended.map(({ buildID }) => buildID).sort())
      for (const build of ended) {
        const changes = { status: 'error', reason, updatedAt: time + 7, finishedAt: time + 7 }
        assert.deepEqual(await templates.findBuild(build.buildID), { ...build, ...changes })
      }
      for (const build of [...remaining, newest]) {
        assert.deepEqual(await templates.findBuild(build.buildID), build)
      }
    },
  )

  storeTest('of builds that were requested at once, only the last is left waiting', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    const builds = await Promise.all(
      Array.from({ length: 6 }, () => insertWaiting(templates, templateID, ['v1', 'default'])),
    )
    await Promise.all(builds.map((build) => templates.supersede(build, ['v1', 'default'], reason, time)))
    const found = await Promise.all(builds.map(({ buildID }) => templates.findBuild(buildID)))
    const waiting = found.filter((build) => build?.status === 'waiting')
    assert.equal(waiting.length, 1)
    for (const build of found) await templates.updateBuild(build!.buildID, { status: 'ready' })
    const newest = await templates.findReadyBuild(templateID, 'default')
    assert.equal(waiting[0]!.buildID, newest?.buildID)
  })
}

function limits(storeTest: StoreTest): void {
  const unfinished = ['waiting', 'building'] as const

  storeTest("only the team's own builds in the named states count against its limit", async (stores) => {
    const { templates } = stores
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const first = await insertTemplate(stores, { teamID })
    const second = await insertTemplate(stores, { teamID })
    const theirs = await insertTemplate(stores, { teamID: other.teamID })
    for (const status of statuses) await templates.insertBuild(aBuild(first.templateID, { status }), [])
    await templates.insertBuild(aBuild(second.templateID, { status: 'waiting' }), [])
    await templates.insertBuild(aBuild(theirs.templateID, { status: 'building' }), [])
    const insert = (max: number) => {
      const build = aBuild(second.templateID, { status: 'waiting' })
      return templates.insertBuildWithin({ teamID, statuses: unfinished, max }, build, ['v1'])
    }
    assert.equal(await insert(3), false)
    assert.equal((await templates.listBuilds(second.templateID, { limit: 9 })).length, 1)
    assert.equal(await insert(4), true)
    assert.equal(await insert(4), false)
    const unknown = { teamID: newUUID(), statuses: unfinished, max: 4 }
    const build = aBuild(second.templateID)
    await assert.rejects(templates.insertBuildWithin(unknown, build, []), (error) =>
      isAppError(error, 'not_found'),
    )
  })

  storeTest('of 40 builds that are requested at once, no more than allowed are inserted', async (stores) => {
    const { templates } = stores
    const { teamID } = await insertTeam(stores)
    const known = await insertTemplate(stores, { teamID })
    const limit = { teamID, statuses: unfinished, max: 20 }
    const inserted = await Promise.all(
      Array.from({ length: 40 }, (_, index) => {
        const template = aTemplate({ teamID })
        const fresh = index % 2 ? { template, names: [{ namespace: 'n', alias: `t${index}` }] } : undefined
        const { templateID } = fresh ? template : known
        const build = aBuild(templateID, { status: index % 3 ? 'waiting' : 'building' })
        return templates.insertBuildWithin(limit, build, [`v${index}`], fresh)
      }),
    )
    assert.equal(inserted.filter(Boolean).length, 20)
    assert.equal((await templates.listBuildsIn(unfinished, time + 1)).length, 20)
    for (let index = 1; index < 40; index += 2) {
      const found = await templates.findByAlias('n', `t${index}`)
      assert.equal(found !== undefined, inserted[index], 'a refused request leaves no template')
    }
  })
}

function listing(storeTest: StoreTest): void {
  storeTest('builds of all teams that nobody has changed for long are listed by status', async (stores) => {
    const { templates } = stores
    const { teamID } = await insertTeam(stores)
    const mine = await insertTemplate(stores, { teamID })
    const shared = await insertTemplate(stores)
    const insert = async ({ templateID }: { templateID: string }, status: BuildStatus, updatedAt: number) => {
      const build = aBuild(templateID, { status, updatedAt })
      await templates.insertBuild(build, [])
      return build
    }
    const second = await insert(mine, 'waiting', time + 2)
    const first = await insert(shared, 'building', time + 1)
    await insert(mine, 'waiting', time + 3)
    await insert(mine, 'ready', time)
    await insert(mine, 'error', time)
    assert.deepEqual(await templates.listBuildsIn(['waiting', 'building'], time + 3), [first, second])
    assert.deepEqual(await templates.listBuildsIn(['building'], time + 9), [first])
    assert.deepEqual(await templates.listBuildsIn([], time + 9), [])
  })

  storeTest('the list of layers has each layer that builds of any status use, once', async (stores) => {
    const { templates } = stores
    const { templateID } = await insertTemplate(stores)
    assert.deepEqual(await templates.listLayers(), [])
    const gone = aBuild(templateID, { layers: ['one', 'two'] })
    const builds = [
      gone,
      aBuild(templateID, { layers: ['two', 'three'], status: 'error' }),
      aBuild(templateID, { layers: ['two', 'three'], status: 'building' }),
      aBuild(templateID),
    ]
    for (const build of builds) await templates.insertBuild(build, [])
    assert.deepEqual((await templates.listLayers()).sort(), ['one', 'three', 'two'])
    await templates.updateBuild(gone.buildID, { layers: null })
    assert.deepEqual((await templates.listLayers()).sort(), ['three', 'two'])
  })
}
