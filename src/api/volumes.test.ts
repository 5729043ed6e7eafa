import assert from 'node:assert/strict'
import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'

type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
type More = { query?: Record<string, string | number>; body?: string; headers?: Record<string, string> }

/** A Warren with a volume, and a way to ask for its content. */
async function openVolume(options: Parameters<typeof openApi>[0] = {}) {
  const warren = await openApi(options)
  const made = await warren.ask('POST', '/volumes', { body: { name: 'mine' } })
  const { volumeID, token } = made.json() as { volumeID: string; token: string }
  const content = async (method: Method, noun: 'path' | 'dir' | 'file', path: string, more: More = {}) => {
    const authorization = `Bearer ${token}`
    return warren.api.inject({
      method,
      url: `/volumecontent/${volumeID}/${noun}`,
      query: Object.fromEntries(
        Object.entries({ path, ...more.query }).map(([key, value]) => [key, String(value)]),
      ),
      headers: { authorization, ...more.headers },
      ...(more.body !== undefined && { payload: more.body }),
    })
  }
  return { ...warren, made, volumeID, token, content }
}

describe('volumes over the API', () => {
  it('are made, listed, shown with a fresh token, and deleted', async () => {
    await using warren = await openVolume()
    const { ask, made, volumeID, token, fixture } = warren
    assert.equal(made.status, 201)
    const createdAt = new Date(fixture.clock.now()).toISOString()
    const volume = { volumeID, name: 'mine', createdAt, sizeMB: 64 }
    assert.deepEqual(made.json(), { ...volume, token, domain: 'localhost:3000' })
    assert.deepEqual((await ask('GET', '/volumes')).json(), [volume])
    fixture.clock.advance(1000)
    const shown = await ask('GET', `/volumes/${volumeID}`)
    assert.equal(shown.status, 200)
    assert.notEqual(shown.json().token, token)
    assert.equal((await ask('DELETE', `/volumes/${volumeID}`)).status, 204)
    for (const method of ['GET', 'DELETE'] as const) {
      assert.equal((await ask(method, `/volumes/${volumeID}`)).status, 404)
    }
  })

  it('are returned with the domain for their content', async () => {
    await using warren = await openVolume({ domain: 'warren.test' })
    assert.equal(warren.made.json().domain, 'warren.test')
    const far = { headers: { host: '192.0.2.7:3000' } }
    await using local = await openVolume()
    assert.equal('domain' in (await local.ask('GET', `/volumes/${local.volumeID}`, far)).json(), false)
  })

  it('are rejected with 400 for a name that is taken or has other characters, and with 429 over the limit', async () => {
    await using warren = await openVolume()
    const create = (name: unknown) => warren.ask('POST', '/volumes', { body: { name } })
    for (const name of ['mine', '', 'a b', '../x', 'ü', 7, null, 'x'.repeat(129)]) {
      assert.equal((await create(name)).status, 400, String(name))
    }
    const others = await Promise.all(['a', 'b', 'c', 'd'].map(create))
    assert.deepEqual(others.map(({ status }) => status).sort(), [201, 201, 429, 429])
  })

  it('appear in the sandboxes that have them mounted', async () => {
    await using warren = await openVolume()
    const volumeMounts = [{ name: 'mine', path: '/mnt/data' }]
    const sandboxID = await warren.create({ volumeMounts })
    assert.deepEqual((await warren.ask('GET', `/sandboxes/${sandboxID}`)).json().volumeMounts, volumeMounts)
    assert.deepEqual((await warren.ask('GET', '/v2/sandboxes')).json()[0].volumeMounts, volumeMounts)
    assert.equal((await warren.ask('DELETE', `/volumes/${warren.volumeID}`)).status, 409)
    const wrong = [
      [[{ name: 'nothing', path: '/a' }], 404],
      [[{ name: 'mine', path: 'a' }], 400],
      [[{ name: 'mine', path: '/proc/x' }], 400],
      [[...volumeMounts, ...volumeMounts], 400],
    ] as const
    for (const [mounts, status] of wrong) {
      const body = { templateID: 'base', volumeMounts: mounts }
      assert.equal((await warren.ask('POST', '/v2/sandboxes', { body })).status, status)
    }
  })
})

describe('the content of volumes over the API', () => {
  it('needs the token of that volume, and does not reveal whether another volume exists', async () => {
    await using warren = await openVolume()
    const { api, token, volumeID, key, fixture, ask } = warren
    const other = (await ask('POST', '/volumes', { body: { name: 'other' } })).json() as { token: string }
    const unknown = '00000000-0000-4000-8000-000000000000'
    const bodies = new Set<string>()
    for (const id of [volumeID, unknown, '..%2f..', 'x']) {
      const tokens = [
        '',
        'Bearer ',
        `Bearer ${other.token}`,
        `Bearer ${key}`,
        `Bearer ${token}x`,
        `Basic ${token}`,
      ]
      for (const authorization of tokens) {
        const url = `/volumecontent/${id}/path?path=/`
        const answer = await api.inject({ method: 'GET', url, headers: { authorization, 'x-api-key': key } })
        assert.equal(answer.statusCode, 401)
        bodies.add(answer.body)
      }
    }
    assert.equal(bodies.size, 1)
    assert.equal(JSON.parse([...bodies][0]!).code, '401', 'the code of this API is a text')
    fixture.clock.advance(3_600_000)
    assert.equal((await warren.content('GET', 'path', '/')).statusCode, 401)
  })

  it('is 404 for a token of a volume that was deleted', async () => {
    await using warren = await openVolume()
    await warren.ask('DELETE', `/volumes/${warren.volumeID}`)
    assert.equal((await warren.content('GET', 'path', '/')).statusCode, 404)
  })

  it('has folders and files that are made, described, changed, listed and removed', async () => {
    await using warren = await openVolume()
    const { content } = warren
    assert.equal((await content('POST', 'dir', '/a/b')).statusCode, 404)
    const made = await content('POST', 'dir', '/a/b', { query: { force: 'true', mode: 0o700, uid: 3 } })
    assert.equal(made.statusCode, 201)
    assert.deepEqual([made.json().path, made.json().mode, made.json().uid], ['/a/b', 0o700, 3])
    assert.equal((await content('POST', 'dir', '/a/b')).statusCode, 409)
    assert.equal((await content('POST', 'dir', '/a/b', { query: { force: 'true' } })).statusCode, 201)
    const written = await content('PUT', 'file', 'a/file', { body: 'text' })
    assert.deepEqual([written.statusCode, written.json().size, written.json().type], [201, 4, 'file'])
    assert.equal((await content('PUT', 'file', '/a/file', { body: 'x' })).statusCode, 409)
    const again = await content('PUT', 'file', '/a/file', { body: '', query: { force: 'true' } })
    assert.deepEqual([again.statusCode, again.json().size], [201, 0])
    const headers = { 'content-type': 'application/json' }
    const changed = await content('PATCH', 'path', '/a/file', { body: '{"mode":256,"gid":9}', headers })
    assert.deepEqual([changed.statusCode, changed.json().mode, changed.json().gid], [200, 256, 9])
    for (const body of ['{"mode":99999}', '{"uid":-1}', '{"uid":65536}', 'x']) {
      assert.equal((await content('PATCH', 'path', '/a/file', { body, headers })).statusCode, 400, body)
    }
    const listed = await content('GET', 'dir', '/', { query: { depth: 2 } })
    assert.deepEqual((listed.json() as { path: string }[]).map(({ path }) => path).sort(), [
      '/a',
      '/a/b',
      '/a/file',
    ])
    assert.deepEqual((await content('GET', 'dir', '/a/b')).json(), [])
    assert.equal((await content('GET', 'dir', '/a/file')).statusCode, 400)
    assert.equal((await content('GET', 'dir', '/', { query: { depth: 0 } })).statusCode, 400)
    assert.equal((await content('GET', 'path', '')).statusCode, 400)
    assert.equal((await content('DELETE', 'path', '/a')).statusCode, 204)
    const missing = await content('GET', 'path', '/a')
    assert.deepEqual([missing.statusCode, missing.json().code], [404, '404'])
  })

  it('is read whole or in a range', async () => {
    await using warren = await openVolume()
    const { content } = warren
    await content('PUT', 'file', '/file', { body: '0123456789' })
    await content('PUT', 'file', '/empty', { body: '' })
    const read = async (range?: string, path = '/file') => {
      const answer = await content('GET', 'file', path, { headers: range === undefined ? {} : { range } })
      return [answer.statusCode, answer.body, answer.headers['content-range']]
    }
    assert.deepEqual(await read(), [200, '0123456789', undefined])
    assert.deepEqual(await read('bytes=2-4'), [206, '234', 'bytes 2-4/10'])
    assert.deepEqual(await read('bytes=-3'), [206, '789', 'bytes 7-9/10'])
    assert.deepEqual(await read('bytes=8-'), [206, '89', 'bytes 8-9/10'])
    assert.deepEqual(await read('bytes=0-1,4-5'), [200, '0123456789', undefined])
    const [status, , range] = await read('bytes=10-')
    assert.deepEqual([status, range], [416, 'bytes */10'])
    assert.deepEqual(await read('bytes=0-', '/empty'), [200, '', undefined])
    const head = await content('HEAD', 'file', '/file')
    assert.deepEqual([head.statusCode, head.body, head.headers['content-length']], [200, '', '10'])
  })

  it('stays within the volume whatever a sandbox left in it', async () => {
    await using warren = await openVolume()
    const { content, fixture, volumeID } = warren
    const folder = await fixture.volumeDisks.folder(volumeID)
    writeFileSync(join(folder, '../secret'), 'of the host')
    symlinkSync('../secret', join(folder, 'link'))
    symlinkSync('/etc', join(folder, 'host'))
    for (const path of ['/link', '/host/passwd', '/../secret', '/../../../../etc/passwd', '..%2fsecret']) {
      const answer = await content('GET', 'file', path)
      assert.equal(answer.statusCode, 404, path)
    }
    assert.equal((await content('PUT', 'file', '/host/new', { body: 'x' })).statusCode, 404)
    const link = (await content('GET', 'path', '/link')).json()
    assert.deepEqual([link.type, link.target], ['symlink', '../secret'])
  })
})
