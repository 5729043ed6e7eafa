import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { type Route, RouteTable } from '../core/sandbox/network/routes.ts'
import { ManualClock } from '../lib/clock.ts'
import { isSignedFor, routeOfSignedFile, SignedFileSearch } from './signed-file.ts'

const token = '0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0'
const route = (sandboxID: string, agentToken: string): Route => ({
  sandboxID,
  runID: sandboxID,
  teamID: 'team',
  start: sandboxID,
  agentToken,
  trafficToken: null,
  endpoint: () => ({ host: '127.0.0.1', port: 1 }),
})
const routes = [route('other', 'x'.repeat(32)), route('mine', token), route('third', 'y'.repeat(32))]

const sign = (text: string): string =>
  `v1_${createHash('sha256').update(text).digest('base64').replace(/=+$/, '')}`

const find = (method: string, query: Record<string, string>): string | undefined =>
  routeOfSignedFile(method, `/files?${new URLSearchParams(query)}`, routes)?.sandboxID

describe('the search for the sandbox of a signed file URL', () => {
  it('is limited for signatures that fit no sandbox, and finds a link again that it found before', () => {
    const clock = new ManualClock()
    const table = new RouteTable()
    for (let number = 0; number < 1000; number++) table.set(route(`i${number}`, `token ${number}`))
    table.set(route('mine', token))
    const search = new SignedFileSearch(table, clock)
    const asking = (path: string, signature = sign(`${path}:read::${token}`)) => {
      const found = search.find('GET', `/files?${new URLSearchParams({ path, signature })}`)
      return typeof found === 'object' ? found.sandboxID : found
    }
    assert.equal(asking('known'), 'mine')
    let tries = 0
    while (asking('known', sign(`guess ${tries}`)) === undefined) tries++
    assert.equal(tries, 40)
    assert.deepEqual(
      ['known', 'fresh'].map((path) => asking(path)),
      ['mine', 'busy'],
    )
    assert.equal(asking('known', 'no signature'), undefined)
    clock.advance(1000)
    assert.equal(asking('fresh'), 'mine')
    table.remove('mine', 'mine')
    assert.equal(asking('known'), undefined)
  })
})

describe('a signed file URL', () => {
  it('finds its sandbox for the test vector of the contract', () => {
    const signature = 'v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E'
    assert.equal(find('GET', { path: 'hello.txt', username: 'user', signature }), 'mine')
  })

  it('finds its sandbox with an expiration, for writing, and with path and user left out', () => {
    const signature = sign(`:write::${token}:1700000000`)
    assert.equal(find('POST', { signature, signature_expiration: '1700000000' }), 'mine')
  })

  it('matches no sandbox if path, user, operation, expiration or token differ', () => {
    const good = {
      path: 'a b+c',
      username: 'user',
      signature: sign(`a b+c:read:user:${token}:5`),
      signature_expiration: '5',
    }
    assert.equal(find('GET', good), 'mine')
    assert.equal(find('POST', good), undefined)
    assert.equal(find('GET', { ...good, path: 'a b c' }), undefined)
    assert.equal(find('GET', { ...good, username: 'root' }), undefined)
    assert.equal(find('GET', { ...good, signature_expiration: '6' }), undefined)
    assert.equal(find('GET', { ...good, signature: sign('a b+c:read:user:wrong:5') }), undefined)
  })

  it('matches no sandbox if the signature is malformed', () => {
    for (const signature of [
      '',
      'v1_',
      'v1_abc',
      `v2_${'a'.repeat(43)}`,
      `v1_${'a'.repeat(44)}`,
      `v1_${'%'.repeat(43)}`,
    ]) {
      assert.equal(find('GET', { path: 'a', signature }), undefined)
    }
  })

  it('is valid for its own sandbox, until it expires', () => {
    const counts = (agentToken: string, expiration: string, nowMs: number): boolean => {
      const signature = sign(`a:read::${token}:${expiration}`)
      const query = new URLSearchParams({ path: 'a', signature, signature_expiration: expiration })
      return isSignedFor({ agentToken }, 'GET', `/files?${query}`, nowMs)
    }
    assert.equal(counts(token, '1700000000', 1_699_999_999_999), true)
    assert.equal(counts(token, '1700000000', 1_700_000_000_000), false)
    assert.equal(counts('another', '1700000000', 0), false)
    for (const expiration of ['', 'never', '-1']) assert.equal(counts(token, expiration, 0), false)
    const forever = new URLSearchParams({ path: 'a', signature: sign(`a:read::${token}`) })
    assert.equal(isSignedFor({ agentToken: token }, 'GET', `/files?${forever}`, Number.MAX_VALUE), true)
  })
})
