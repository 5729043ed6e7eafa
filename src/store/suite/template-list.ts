import assert from 'node:assert/strict'
import type { BuildStatus, Template, TemplateBuild, TemplateSummary } from '../../core/template/template.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Stores } from '../stores.ts'
import { aBuild, aTemplate, insertTeam, insertTemplate, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const wholeList = { order: 'asc', limit: 100 } as const

async function insertBuilds(
  { templates }: Stores,
  templateID: string,
  builds: [BuildStatus, string[]][],
): Promise<TemplateBuild[]> {
  const inserted: TemplateBuild[] = []
  for (const [status, tags] of builds) {
    const build = aBuild(templateID, { status })
    await templates.insertBuild(build, tags)
    inserted.push(build)
  }
  return inserted
}

const idsOf = (summaries: TemplateSummary[]) => summaries.map(({ template }) => template.templateID)

export function templateListSuite(storeTest: StoreTest): void {
  summaries(storeTest)
  pages(storeTest)
  buildPages(storeTest)
}

function summaries(storeTest: StoreTest): void {
  storeTest('a template without builds is summarized as waiting, with no build', async (stores) => {
    const team = await insertTeam(stores)
    const template = await insertTemplate(stores, { teamID: team.teamID })
    const summary = { template, names: [], build: null, buildStatus: 'waiting', buildCount: 0 }
    assert.deepEqual(await stores.templates.summaryOf(template.templateID), summary)
    assert.deepEqual(await stores.templates.listTemplates(team.teamID, wholeList), [summary])
    assert.equal(await stores.templates.summaryOf('nothing'), undefined)
  })

  storeTest(
    'a summary has the newest ready build of the default tag, and the status of its newest build',
    async (stores) => {
      const { teamID } = await insertTeam(stores)
      const { templateID } = await insertTemplate(stores, { teamID })
      const builds = await insertBuilds(stores, templateID, [
        ['ready', ['default']],
        ['ready', ['default']],
        ['ready', ['v1']],
        ['ready', []],
        ['error', ['default']],
        ['building', ['default']],
        ['waiting', ['v1']],
      ])
      const summed = async () => {
        const summary = await stores.templates.summaryOf(templateID)
        assert.deepEqual(await stores.templates.listTemplates(teamID, wholeList), [summary])
        return summary && { ...summary, template: summary.template.templateID }
      }
      const expected = { template: templateID, names: [], buildCount: 7 }
      assert.deepEqual(await summed(), { ...expected, build: builds[1]!, buildStatus: 'building' })
      await stores.templates.assignTags(templateID, builds[0]!.buildID, ['default'], time + 1)
      assert.deepEqual(await summed(), { ...expected, build: builds[0]!, buildStatus: 'ready' })
    },
  )

  storeTest('a failed build alone gives its status and no build', async (stores) => {
    const { templateID } = await insertTemplate(stores)
    await insertBuilds(stores, templateID, [
      ['error', ['default']],
      ['ready', ['other']],
    ])
    const summary = await stores.templates.summaryOf(templateID)
    assert.equal(summary?.build, null)
    assert.equal(summary?.buildStatus, 'error')
    assert.equal(summary?.buildCount, 2)
  })

  storeTest('every summary has the names and builds of its own template', async (stores) => {
    const { teamID, slug } = await insertTeam(stores)
    const expected: TemplateSummary[] = []
    for (const alias of ['z', 'a', 'm']) {
      const template = aTemplate({ teamID, createdAt: time + expected.length })
      const own = { namespace: slug, alias }
      const bare = { namespace: null, alias: `bare-${alias}` }
      await stores.templates.insertTemplate(template, [own, bare])
      const build = aBuild(template.templateID)
      await stores.templates.insertBuild(build, ['default'])
      expected.push({ template, names: [bare, own], build, buildStatus: 'ready', buildCount: 1 })
    }
    assert.deepEqual(await stores.templates.listTemplates(teamID, wholeList), expected)
  })

  storeTest('more templates than fit into one query are listed in full', async (stores) => {
    const { teamID, slug } = await insertTeam(stores)
    const many = 501
    for (let count = 0; count < many; count++) {
      const template = aTemplate({ teamID, createdAt: time + count })
      await stores.templates.insertTemplate(template, [{ namespace: slug, alias: `t${count}` }])
      await stores.templates.insertBuild(aBuild(template.templateID), ['default'])
    }
    const listed = await stores.templates.listTemplates(teamID, { order: 'asc', limit: many })
    assert.equal(listed.length, many)
    for (const [count, { template, names, build }] of listed.entries()) {
      assert.equal(build?.templateID, template.templateID)
      assert.deepEqual(names, [{ namespace: slug, alias: `t${count}` }])
    }
  })
}

function pages(storeTest: StoreTest): void {
  storeTest("snapshots, other teams' templates and Warren's own are not listed", async (stores) => {
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const mine = await insertTemplate(stores, { teamID })
    await insertTemplate(stores, { teamID, isSnapshot: true })
    await insertTemplate(stores, { teamID: other.teamID })
    await insertTemplate(stores, { teamID: null })
    assert.deepEqual(idsOf(await stores.templates.listTemplates(teamID, wholeList)), [mine.templateID])
    assert.deepEqual(await stores.templates.listTemplates(newUUID(), wholeList), [])
  })

  for (const order of ['asc', 'desc'] as const) {
    storeTest(
      `templates in ${order} order are the same in one page and in pages of any size`,
      async (stores) => {
        const { teamID } = await insertTeam(stores)
        const moments = [3, 1, 2, 2, 2, 1]
        const templates: Template[] = []
        for (const moment of moments) {
          templates.push(await insertTemplate(stores, { teamID, createdAt: time + moment }))
        }
        const way = order === 'asc' ? 1 : -1
        templates.sort(
          (one, two) => way * (one.createdAt - two.createdAt) || (one.templateID < two.templateID ? -1 : 1),
        )
        const expected = templates.map(({ templateID }) => templateID)
        for (const limit of [1, 2, 3, 6, 7]) {
          const listed: string[] = []
          let after: { createdAt: number; templateID: string } | undefined
          for (;;) {
            const page = await stores.templates.listTemplates(teamID, {
              order,
              limit,
              ...(after && { after }),
            })
            assert.ok(page.length <= limit)
            listed.push(...idsOf(page))
            after = page.at(-1)?.template
            if (!after || listed.length > expected.length) break
          }
          assert.deepEqual(listed, expected, `pages of ${limit}`)
        }
      },
    )
  }
}

function buildPages(storeTest: StoreTest): void {
  storeTest('builds of any status are listed newest first, in pages of any size', async (stores) => {
    const { templateID } = await insertTemplate(stores)
    const other = await insertTemplate(stores)
    await stores.templates.insertBuild(aBuild(other.templateID, { createdAt: time + 2 }), ['default'])
    const statuses: BuildStatus[] = ['ready', 'error', 'waiting', 'building', 'ready']
    const builds = [3, 1, 2, 2, 2].map((moment, index) =>
      aBuild(templateID, { createdAt: time + moment, status: statuses[index]! }),
    )
    for (const build of builds) await stores.templates.insertBuild(build, [])
    builds.sort((one, two) => two.createdAt - one.createdAt || (one.buildID < two.buildID ? -1 : 1))
    for (const limit of [1, 2, 5, 6]) {
      const listed: TemplateBuild[] = []
      let after: TemplateBuild | undefined
      for (;;) {
        const page = await stores.templates.listBuilds(templateID, { limit, ...(after && { after }) })
        assert.ok(page.length <= limit)
        listed.push(...page)
        after = page.at(-1)
        if (!after || listed.length > builds.length) break
      }
      assert.deepEqual(listed, builds, `pages of ${limit}`)
    }
    assert.deepEqual(await stores.templates.listBuilds('nothing', { limit: 9 }), [])
  })
}
