/** Every list that a team can grow has an end, also for requests at the same moment, and a full one slows nobody else. */
import assert from 'node:assert/strict'
import { performance } from 'node:perf_hooks'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { countOf } from '../../test/support/count-of.ts'
import { secretLimits } from '../core/secret/secret.ts'
import { maxLiveKeys } from '../core/team/key-limit.ts'
import { listLimits } from '../core/team/list-limits.ts'
import { webhookLimits } from '../core/webhook/webhook.ts'
import { newUUID } from '../lib/ids.ts'
import { aBuild, aTemplate, time } from '../store/suite/rows.ts'

type Warren = Awaited<ReturnType<typeof openApi>>
type List = {
  name: string
  max: number
  /** Adds so many entries by the shortest way. */
  fill(warren: Warren, count: number): Promise<void>
  /** Adds one entry as a client; the number makes it another one. */
  add(warren: Warren, number: number): ReturnType<Warren['ask']>
  message: RegExp
  /** What shows the list. */
  read: string
}

const atOnce = 10
const tagged = 'tagged'

/** To fill the real limit takes a minute. */
const limits = listLimits as { templatesPerTeam: number }
limits.templatesPerTeam = countOf({ short: 100, long: limits.templatesPerTeam })

async function fillBy(add: List['add'], warren: Warren, count: number): Promise<void> {
  for (let number = 0; number < count; number++)
    assert.ok((await add(warren, 1_000_000 + number)).status < 300)
}

const post = (url: string, body: (number: number) => object): List['add'] => {
  return ({ ask }, number) => ask('POST', url, { body: body(number) })
}

const addKey = post('/api-keys', (number) => ({ name: `k${number}` }))
const addSecret = post('/secrets', (number) => ({ name: `s${number}`, value: 'v' }))
const addWebhook = post('/events/webhooks', (number) => ({
  name: `w${number}`,
  url: 'https://example.com/',
  enabled: true,
  events: ['sandbox.lifecycle.created'],
  signatureSecret: 'a secret of enough characters for this',
}))
const addTag = post('/templates/tags', (number) => ({ target: tagged, tags: [`t${number}`] }))

async function insertTemplates({ fixture }: Warren, count: number): Promise<void> {
  const { stores, team } = fixture
  for (let number = 0; number < count; number++) {
    const template = aTemplate({ teamID: team.teamID })
    const build = aBuild(template.templateID, { status: 'ready', createdAt: time + number })
    await stores.templates.insertBuild(build, ['default'], { template, names: [] })
  }
}

const lists: List[] = [
  {
    name: 'keys',
    max: maxLiveKeys,
    // The team of the fixture has one.
    fill: (warren, count) => fillBy(addKey, warren, count - 1),
    add: addKey,
    message: /at most 200 keys and access tokens/,
    read: '/api-keys',
  },
  {
    name: 'secrets',
    max: secretLimits.perTeam,
    fill: (warren, count) => fillBy(addSecret, warren, count),
    add: addSecret,
    message: /has 1000 secrets, which is the limit/,
    read: '/secrets?limit=100',
  },
  {
    name: 'webhooks',
    max: webhookLimits.perTeam,
    fill: (warren, count) => fillBy(addWebhook, warren, count),
    add: addWebhook,
    message: /has 10 webhooks, which is the limit/,
    read: '/events/webhooks',
  },
  {
    name: 'tags',
    max: listLimits.tagsPerTemplate,
    async fill(warren, count) {
      const { stores, team } = warren.fixture
      const template = aTemplate({ teamID: team.teamID })
      const names = [{ namespace: team.slug, alias: tagged }]
      const build = aBuild(template.templateID, { status: 'ready' })
      await stores.templates.insertBuild(build, ['default'], { template, names })
      const tags = Array.from({ length: count - 1 }, (_, number) => `f${number}`)
      for (let round = 0; round < listLimits.assignmentsPerTag; round++)
        await stores.templates.assignTags(template.templateID, build.buildID, tags, time + round)
    },
    add: addTag,
    message: /at most 1000 tags/,
    read: `/templates/${tagged}/tags`,
  },
  {
    name: 'templates and snapshots',
    max: listLimits.templatesPerTeam,
    // The team of the fixture has one.
    fill: (warren, count) => insertTemplates(warren, count),
    add: post('/v3/templates', (number) => ({ name: `m${number}` })),
    message: /at most \d+ templates and snapshots/,
    read: '/v2/templates?limit=100',
  },
]

describe('the lists of a team', () => {
  for (const list of lists) {
    it(`${list.name}: at most ${list.max}, also by requests at the same moment`, async (t) => {
      await using warren = await openApi()
      const other = await warren.teams.createTeam('other')
      const { key } = await warren.teams.createKey(other.teamID, 'k')
      await list.fill(warren, list.max - 1)
      const answers = await Promise.all(
        Array.from({ length: atOnce }, (_, number) => list.add(warren, number)),
      )
      const made = answers.filter(({ status }) => status < 300)
      assert.equal(made.length, 1, answers.map(({ body }) => body).join('\n'))
      for (const { status, body } of answers.filter((answer) => !made.includes(answer))) {
        assert.ok(status === 429 || status === 409, body)
        assert.match(body, list.message)
      }
      t.diagnostic(await slowness(warren, key, list.read))
    })
  }

  it('metadata: at most 1024 entries', async () => {
    await using warren = await openApi()
    const metadata = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, number) => [`k${number}`, '']))
    const create = (count: number) =>
      warren.ask('POST', '/v2/sandboxes', { body: { templateID: 'base', metadata: metadata(count) } })
    assert.equal((await create(1024)).status, 201)
    const rejected = await create(1025)
    assert.equal(rejected.status, 400)
    assert.match(rejected.body, /metadata must NOT have more than 1024/)
  })

  it('failed builds of a template: the newest 100 are remembered', async () => {
    await using warren = await openApi()
    const { stores, team } = warren.fixture
    const template = aTemplate({ teamID: team.teamID })
    await stores.templates.insertTemplate(template, [])
    const ready = aBuild(template.templateID, { status: 'ready', createdAt: time })
    await stores.templates.insertBuild(ready, ['default'])
    for (let number = 1; number <= 150; number++) {
      const failed = aBuild(template.templateID, {
        buildID: newUUID(),
        status: 'error',
        createdAt: time + number,
      })
      await stores.templates.insertBuild(failed, ['default'])
    }
    const builds = await stores.templates.listBuilds(template.templateID, { limit: 1000 })
    assert.equal(builds.filter(({ status }) => status === 'error').length, 100)
    assert.equal(builds[0]!.createdAt, time + 150)
    assert.equal(
      (await stores.templates.findReadyBuild(template.templateID, 'default'))?.buildID,
      ready.buildID,
    )
  })
})

/** How long another team waits for its own list while one reads its full list. A measure, and no check. */
async function slowness({ ask }: Warren, key: string, read: string): Promise<string> {
  const timed = async () => {
    const start = performance.now()
    assert.equal((await ask('GET', '/v2/sandboxes', { headers: { 'x-api-key': key } })).status, 200)
    return performance.now() - start
  }
  const quiet: number[] = []
  for (let round = 0; round < 20; round++) quiet.push(await timed())
  const beside: number[] = []
  for (let round = 0; round < 20; round++) {
    const [answer, waited] = await Promise.all([ask('GET', read), timed()])
    assert.equal(answer.status, 200, answer.body)
    beside.push(waited)
  }
  return `another team waits ${median(quiet)} ms alone, ${median(beside)} ms beside a full list`
}

const median = (times: number[]): string =>
  times.sort((one, other) => one - other)[Math.floor(times.length / 2)]!.toFixed(1)
