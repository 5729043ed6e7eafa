/** The operations on tags that only the generated client of E2B's Python package has. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { another, built, requested, type Warren } from '../../test/support/template-calls.ts'
import { uuidForm } from '../lib/ids.ts'

/** `web` with builds for v1, v2, v1 again and v3; and a tag whose only build was never started. */
async function tagged(warren: Warren) {
  const builds: string[] = []
  for (const tag of ['v1', 'v2', 'v1', 'v3']) {
    builds.push((await built(warren, 'web', undefined, { tags: [tag] })).buildID)
  }
  const { templateID } = await requested(warren, 'web', { tags: ['waiting'] })
  const read = async (path: string) => {
    const answer = await warren.ask('GET', `/templates/${templateID}/tags/${path}`)
    assert.equal(answer.status, 200, answer.body)
    return answer.json()
  }
  return { builds, templateID, read }
}

describe('tags of a template', () => {
  it('are counted if they have a ready build', async () => {
    await using warren = await openApi()
    const { read } = await tagged(warren)
    assert.deepEqual(await read('count'), { total: 3 })
  })

  it('exist if they have a ready build, in the form in which they are stored', async () => {
    await using warren = await openApi()
    const { read, templateID } = await tagged(warren)
    assert.deepEqual(await read('exists?tag=%20V2'), { exists: true, normalizedTag: 'v2' })
    assert.deepEqual(await read('exists?tag=waiting'), { exists: false, normalizedTag: 'waiting' })
    const wrong = await warren.ask('GET', `/templates/${templateID}/tags/exists?tag=a%20b`)
    assert.deepEqual([wrong.status, wrong.json().message.slice(0, 19)], [400, "Invalid tag: 'a b';"])
    assert.equal((await warren.ask('GET', `/templates/${templateID}/tags/exists`)).status, 400)
  })

  it('are listed with their newest builds, by pages, in each order', async () => {
    await using warren = await openApi()
    const { read, builds } = await tagged(warren)
    const all = await read('groups')
    assert.equal(all.nextCursor, null)
    const tags = all.tags.map((group: { tag: string; assignments: { buildId: string }[] }) => [
      group.tag,
      ...group.assignments.map(({ buildId }) => buildId),
    ])
    assert.deepEqual(tags, [
      ['v3', builds[3]],
      ['v1', builds[2], builds[0]],
      ['v2', builds[1]],
    ])
    const { assignmentId, assignedAt, buildCreatedAt, buildFinishedAt } = all.tags[1].assignments[0]
    assert.match(assignmentId, uuidForm)
    for (const time of [assignedAt, buildCreatedAt, buildFinishedAt]) assert.match(time, /^\d{4}-.*Z$/)
    const orders = {
      latest_desc: 'v3 v1 v2',
      latest_asc: 'v2 v1 v3',
      name_asc: 'v1 v2 v3',
      name_desc: 'v3 v2 v1',
    }
    for (const [order, expected] of Object.entries(orders)) {
      const seen: string[] = []
      let cursor: string | null = ''
      do {
        const page = await read(`groups?sort=${order}&tagsLimit=1&assignmentLimit=1&tagsCursor=${cursor}`)
        for (const { tag, assignments, hasMore } of page.tags) {
          assert.deepEqual([assignments.length, hasMore], [1, tag === 'v1'])
          seen.push(tag)
        }
        cursor = page.nextCursor
      } while (cursor !== null)
      assert.equal(seen.join(' '), expected)
    }
    assert.deepEqual(
      (await read('groups?search=V2')).tags.map(({ tag }: { tag: string }) => tag),
      ['v2'],
    )
  })

  it('tell all their builds, newest first, by pages', async () => {
    await using warren = await openApi()
    const { read, builds } = await tagged(warren)
    const first = await read('v1/assignments?limit=1')
    assert.deepEqual(
      first.data.map(({ buildId }: { buildId: string }) => buildId),
      [builds[2]],
    )
    const second = await read(`v1/assignments?limit=1&cursor=${first.nextCursor}`)
    assert.deepEqual([second.data[0].buildId, second.data.length, second.nextCursor], [builds[0], 1, null])
    assert.notEqual(second.data[0].assignmentId, first.data[0].assignmentId)
    assert.deepEqual(await read('nothing/assignments'), { data: [], nextCursor: null })
  })

  it('of another team, or with a cursor of another list, are not told', async () => {
    await using warren = await openApi()
    const { templateID, read } = await tagged(warren)
    const { headers } = await another(warren)
    for (const path of ['count', 'exists?tag=v1', 'groups', 'v1/assignments']) {
      const answer = await warren.ask('GET', `/templates/${templateID}/tags/${path}`, { headers })
      assert.equal(answer.status, 404, path)
    }
    const { nextCursor } = await read('groups?tagsLimit=1')
    for (const path of [`groups?sort=name_asc&tagsCursor=${nextCursor}`, 'v1/assignments?cursor=%00']) {
      const answer = await warren.ask('GET', `/templates/${templateID}/tags/${path}`)
      assert.equal(answer.status, 400, path)
      assert.match(answer.json().message, /use the nextCursor of the page before/)
    }
  })
})

it('the default templates are those without a team, and nobody is told how others use them', async () => {
  await using warren = await openApi()
  await built(warren, 'web')
  await warren.ask('POST', '/v2/sandboxes', { body: { templateID: 'base' } })
  const answer = await warren.ask('GET', '/default-templates')
  assert.equal(answer.status, 200, answer.body)
  const list = answer.json()
  assert.deepEqual(
    list.map(({ names, isDefault, spawnCount, buildCount, lastSpawnedAt, buildStatus }: never) => [
      names,
      isDefault,
      [spawnCount, buildCount, lastSpawnedAt],
      buildStatus,
    ]),
    [[['base'], true, [0, 0, null], 'ready']],
  )
})
