import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { gzipSync } from 'node:zlib'
import { openApi } from '../../test/support/api.ts'
import { another, built, requested, type Warren } from '../../test/support/template-calls.ts'

const hash = 'ab'.repeat(32)

const emptyArchive = Buffer.alloc(1024)

const put = ({ api }: Warren, url: string, payload: string | Buffer, headers: Record<string, string> = {}) =>
  api.inject({ method: 'PUT', url: url.replace(/^https?:\/\/[^/]+/, ''), payload, headers })

async function linkOf(warren: Warren, templateID: string, headers: Record<string, string> = {}) {
  const answer = await warren.ask('GET', `/templates/${templateID}/files/${hash}`, { headers })
  assert.equal(answer.status, 201)
  return answer.json() as { present: boolean; url: string }
}

describe('files for a build', () => {
  it('are uploaded to a link under any name, and exist from then on', async () => {
    await using warren = await openApi()
    const { templateID } = await requested(warren, 'mine')
    const { present, url } = await linkOf(warren, templateID)
    assert.equal(present, false)
    assert.match(url, /^http:\/\/127\.0\.0\.1:3000\/build-files\/team-alpha\//)
    const kinds: Record<string, string>[] = ['application/json', 'application/x-tar'].map((kind) => ({
      'content-type': kind,
    }))
    for (const headers of [{}, ...kinds]) {
      const answer = await put(warren, url, emptyArchive, headers)
      assert.deepEqual([answer.statusCode, answer.body], [200, ''])
    }
    assert.equal((await linkOf(warren, templateID)).present, true)
    const other = await another(warren)
    const body = { name: 'theirs' }
    const theirs = (await warren.ask('POST', '/v3/templates', { body, ...other })).json()
    assert.equal((await linkOf(warren, theirs.templateID, other.headers)).present, false)
  })

  it('are uploaded to the address that the client used', async () => {
    await using warren = await openApi()
    const { templateID } = await requested(warren, 'mine')
    const headers = { host: 'api.sandboxes.test', 'x-forwarded-proto': 'https, http' }
    const { url } = await linkOf(warren, templateID, headers)
    assert.match(url, /^https:\/\/api\.sandboxes\.test\/build-files\//)
  })

  it('are rejected for a link that was changed, forged or is too old', async () => {
    await using warren = await openApi()
    const { clock } = warren.fixture
    const { templateID } = await requested(warren, 'mine')
    const { url } = await linkOf(warren, templateID)
    const expires = String(clock.now() + 30 * 60_000)
    assert.ok(url.includes(`expires=${expires}`))
    const wrong = [
      url.replace('team-alpha', 'team-beta'),
      url.replace(hash, 'cd'.repeat(32)),
      url.replace(expires, String(clock.now() + 31 * 60_000)),
      url.replace(/signature=.*/, 'signature=x'),
      url.replace(/signature=.*/, 'signature='),
      url.replace('team-alpha', '..%2Fteam-alpha'),
    ]
    for (const each of wrong) {
      const answer = await put(warren, each, 'x')
      assert.equal(answer.statusCode, 403, each)
      assert.match(answer.json().message, /ask for another one/)
    }
    assert.equal((await put(warren, url.replace(/\?.*/, ''), 'x')).statusCode, 400)
    clock.advance(30 * 60_000)
    assert.equal((await put(warren, url, emptyArchive)).statusCode, 200)
    clock.advance(1)
    assert.equal((await put(warren, url, 'y')).statusCode, 403)
  })

  it('are rejected above the limit, packed or unpacked, and leave nothing behind', async () => {
    await using warren = await openApi()
    const { templateID } = await requested(warren, 'mine')
    const { url } = await linkOf(warren, templateID)
    for (const large of [Buffer.alloc(1e6 + 1), gzipSync(Buffer.alloc(1e6 + 1))]) {
      const answer = await put(warren, url, large)
      assert.equal(answer.statusCode, 413)
      assert.match(answer.json().message, /packed and unpacked.*WARREN_MAX_UPLOAD_MB/)
      assert.equal((await linkOf(warren, templateID)).present, false)
    }
    assert.equal((await put(warren, url, Buffer.alloc(1e6))).statusCode, 200)
  })

  it('are dropped if their sender leaves before they were checked', async () => {
    await using warren = await openApi()
    const { templateID } = await requested(warren, 'mine')
    const { url } = await linkOf(warren, templateID)
    const [begun, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    warren.fixture.buildFiles.write = async (_team, _hash, body, _max, signal) => {
      for await (const _ of body) begun.resolve()
      signal!.addEventListener('abort', () => left.resolve())
      await left.promise
    }
    const origin = await warren.api.listen({ port: 0, host: '127.0.0.1' })
    const client = new AbortController()
    const { pathname, search } = new URL(url)
    const sent = fetch(`${origin}${pathname}${search}`, {
      method: 'PUT',
      body: emptyArchive,
      signal: client.signal,
    })
    await begun.promise
    client.abort()
    await assert.rejects(sent)
    await left.promise
  })

  it("are rejected for a bad hash, and for another team's template", async () => {
    await using warren = await openApi()
    const { templateID } = await requested(warren, 'mine')
    for (const bad of ['x', 'AB'.repeat(32), `${hash}0`]) {
      const answer = await warren.ask('GET', `/templates/${templateID}/files/${bad}`)
      assert.deepEqual([answer.status, answer.json().message], [400, 'Invalid files hash'])
    }
    const path = `/files/${hash}`
    assert.equal((await warren.ask('GET', `/templates/nothing${path}`)).status, 404)
    const other = await another(warren)
    assert.equal((await warren.ask('GET', `/templates/${templateID}${path}`, other)).status, 403)
  })
})

describe('deleting a template', () => {
  it('removes its names, builds and tags, by any form of reference', async () => {
    await using warren = await openApi()
    for (const reference of ['mine', 'alpha%2Fmine', 'mine:v9', 'id']) {
      const { templateID, path } = await built(warren, 'mine')
      const target = reference === 'id' ? templateID : reference
      const answer = await warren.ask('DELETE', `/templates/${target}`)
      assert.deepEqual([answer.status, answer.body], [204, ''], reference)
      assert.equal((await warren.ask('GET', `/templates/${templateID}`)).status, 404)
      assert.equal((await warren.ask('GET', '/templates/aliases/mine')).status, 404)
      assert.equal((await warren.ask('GET', `${path}/status`)).status, 404)
    }
  })

  it('is rejected while sandboxes use it, running or paused', async () => {
    await using warren = await openApi()
    const { templateID } = await built(warren, 'mine')
    const sandboxID = await warren.create({ templateID: 'mine' })
    const refusal = async () => {
      const answer = await warren.ask('DELETE', '/templates/mine')
      return [answer.status, answer.json().message]
    }
    const text = (word: string) =>
      `cannot delete template '${templateID}' because there are ${word} sandboxes using it`
    assert.deepEqual(await refusal(), [400, text('running')])
    await warren.ask('POST', `/sandboxes/${sandboxID}/pause`)
    assert.deepEqual(await refusal(), [400, text('paused')])
    await warren.ask('DELETE', `/sandboxes/${sandboxID}`)
    assert.equal((await warren.ask('DELETE', '/templates/mine')).status, 204)
  })

  it('is rejected while sandboxes of other teams use it, so that they can be resumed', async () => {
    await using warren = await openApi()
    const { templateID } = await built(warren, 'mine')
    const other = await another(warren)
    await warren.ask('PATCH', '/v2/templates/mine', { body: { public: true } })
    const body = { templateID: 'alpha/mine' }
    const { sandboxID } = (await warren.ask('POST', '/v2/sandboxes', { ...other, body })).json()
    const path = `/sandboxes/${sandboxID}`
    await warren.ask('PATCH', '/v2/templates/mine', { body: { public: false } })
    const [listed] = (await warren.ask('GET', '/v2/sandboxes?template=alpha%2Fmine', other)).json()
    assert.equal(listed.sandboxID, sandboxID)
    assert.equal((await warren.ask('DELETE', '/templates/mine')).status, 400)
    assert.equal((await warren.ask('POST', `${path}/pause`, other)).status, 204)
    const refused = await warren.ask('DELETE', '/templates/mine')
    const why = `cannot delete template '${templateID}' because there are paused sandboxes using it`
    assert.deepEqual(refused.json(), { code: 400, message: why })
    assert.equal((await warren.ask('POST', `/v2${path}/connect`, other)).status, 201)
    assert.equal((await warren.ask('DELETE', path, other)).status, 204)
    assert.equal((await warren.ask('DELETE', '/templates/mine')).status, 204)
  })

  it("is rejected for another team's template, and for a missing one", async () => {
    await using warren = await openApi()
    const { templateID } = await built(warren, 'mine')
    const other = await another(warren)
    assert.equal((await warren.ask('DELETE', `/templates/${templateID}`, other)).status, 403)
    await warren.ask('PATCH', `/v2/templates/${templateID}`, { body: { public: true } })
    assert.equal((await warren.ask('DELETE', `/templates/${templateID}`, other)).status, 403)
    assert.equal((await warren.ask('DELETE', '/templates/base')).status, 403)
    assert.equal((await warren.ask('DELETE', '/templates/nothing')).status, 404)
    assert.equal((await warren.ask('DELETE', '/templates/a%20b')).status, 400)
    assert.equal((await warren.ask('GET', `/templates/${templateID}`)).status, 200)
  })
})

describe('the description of the API', () => {
  it('lists every operation on templates', async () => {
    await using warren = await openApi()
    const { paths } = (await warren.ask('GET', '/openapi.json')).json() as {
      paths: Record<string, Record<string, { tags?: string[] }>>
    }
    const listed = Object.entries(paths).flatMap(([path, operations]) =>
      Object.entries(operations)
        .filter(([, { tags }]) => tags?.includes('templates'))
        .map(([method]) => `${method} ${path}`),
    )
    assert.deepEqual(listed.sort(), [
      'delete /templates/tags',
      'delete /templates/{templateID}',
      'get /built-in-templates',
      'get /built-in-templates/{name}',
      'get /default-templates',
      'get /templates',
      'get /templates/aliases/{alias}',
      'get /templates/{templateID}',
      'get /templates/{templateID}/builds/{buildID}/logs',
      'get /templates/{templateID}/builds/{buildID}/status',
      'get /templates/{templateID}/files/{hash}',
      'get /templates/{templateID}/tags',
      'get /templates/{templateID}/tags/count',
      'get /templates/{templateID}/tags/exists',
      'get /templates/{templateID}/tags/groups',
      'get /templates/{templateID}/tags/{tag}/assignments',
      'get /v2/templates',
      'patch /templates/{templateID}',
      'patch /v2/templates/{templateID}',
      'post /built-in-templates/{name}',
      'post /templates',
      'post /templates/on-demand',
      'post /templates/tags',
      'post /templates/{templateID}',
      'post /templates/{templateID}/builds/{buildID}',
      'post /v2/templates',
      'post /v2/templates/{templateID}/builds/{buildID}',
      'post /v3/templates',
      'put /build-files/{teamID}/{hash}',
    ])
  })
})
