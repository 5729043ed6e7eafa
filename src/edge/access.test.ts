import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type http from 'node:http'
import { describe, it } from 'node:test'
import { systemClock } from '../lib/clock.ts'
import { agentToken, fetchOnce, to } from './edge-fixture.ts'
import { echo, sleepyEdge } from './sleepy-edge-fixture.ts'

const envd = 49983
const withToken = { 'X-Access-Token': agentToken }

const signedPath = (path: string, operation: string, expiration?: number): string => {
  const text = `${path}:${operation}::${agentToken}${expiration === undefined ? '' : `:${expiration}`}`
  const signature = `v1_${createHash('sha256').update(text).digest('base64').replace(/=+$/, '')}`
  const query = new URLSearchParams({ path, signature })
  if (expiration !== undefined) query.set('signature_expiration', `${expiration}`)
  return `/files?${query}`
}

describe('a sleeping sandbox', () => {
  const hour = 3600
  const seconds = () => Math.floor(systemClock.now() / 1000)

  it('is not woken without the right credentials', async () => {
    await using edge = await sleepyEdge()
    const open = edge.sleeper()
    const secret = edge.sleeper({ trafficToken: 'traffic' })
    for (const sleeper of [open, secret]) sleeper.rise.resolve()
    const refused = async (options: http.RequestOptions, status: number, message: RegExp) => {
      for (const upgrade of [{}, { Connection: 'Upgrade', Upgrade: 'websocket' }]) {
        const headers = { ...(options.headers as http.OutgoingHttpHeaders), ...upgrade }
        const answer = await fetchOnce(edge.port, { ...options, headers })
        const what = `${options.method} ${options.path} ${JSON.stringify(headers)}`
        assert.equal(answer.status, status, what)
        const { code, message: said } = JSON.parse(answer.body)
        assert.equal(code, status)
        assert.match(said, message)
      }
    }
    const agent = to(open, envd)
    const start = { method: 'POST', path: '/process.Process/Start' }
    const noResume =
      /^This sandbox can't be resumed with the credentials provided\. Check your access token and try again\.$/
    const traffic = /^Sandbox is secured with traffic access token\. .* is (missing|invalid)$/
    for (const headers of [
      agent,
      { ...agent, 'X-Access-Token': '' },
      { ...agent, 'X-Access-Token': `${agentToken}x` },
      { ...agent, 'X-Access-Token': [agentToken, agentToken] },
      { ...agent, 'E2B-Traffic-Access-Token': agentToken },
      { ...to(secret, envd), 'E2B-Traffic-Access-Token': 'traffic' },
    ]) {
      await refused({ ...start, headers }, 403, noResume)
      await refused({ path: '/health', headers }, 403, noResume)
    }
    for (const path of [
      '/files?path=a',
      signedPath('a', 'write'),
      signedPath('a', 'read', seconds() - 1),
      signedPath('a', 'read').replace('path=a', 'path=b'),
      signedPath('a', 'read', seconds() + hour).replace(
        /expiration=\d+/,
        `expiration=${seconds() + 2 * hour}`,
      ),
      signedPath('a', 'read').replace('/files', '/files/compose'),
    ]) {
      await refused({ path, headers: agent }, 403, noResume)
    }
    const wrong = { ...agent, 'X-Access-Token': 'wrong' }
    await refused({ path: signedPath('a', 'read'), headers: wrong }, 403, noResume)
    await refused({ path: '/init', headers: { ...agent, ...withToken } }, 404, /reserved/)
    await refused({ headers: to(secret, 80) }, 403, traffic)
    await refused({ headers: { ...to(secret, 80), ...withToken } }, 403, traffic)
    await refused({ headers: { ...to(secret, 80), 'E2B-Traffic-Access-Token': 'wrong' } }, 403, traffic)
    assert.deepEqual([open.wakes, secret.wakes], [0, 0])
    const { body } = await fetchOnce(edge.port, { ...start, headers: agent })
    assert.equal(JSON.parse(body).sandboxId, open.sandboxID)
  })

  it('is woken by a token, a signature that has not expired, or the traffic token of a private one', async () => {
    await using edge = await sleepyEdge()
    const service = await echo(edge)
    const cases: [port: number, options: http.RequestOptions][] = [
      [envd, { method: 'POST', path: '/process.Process/Start', headers: withToken }],
      [envd, { path: '/health', headers: withToken }],
      [envd, { path: signedPath('a', 'read') }],
      [envd, { path: signedPath('a', 'read', seconds() + hour) }],
      [envd, { method: 'POST', path: signedPath('b', 'write') }],
      [80, { headers: { 'E2B-Traffic-Access-Token': 'traffic' } }],
    ]
    for (const [port, options] of cases) {
      const sleeper = edge.sleeper({ trafficToken: 'traffic' })
      sleeper.map(port, service.port)
      sleeper.rise.resolve()
      const headers = { ...to(sleeper, port), ...(options.headers as http.OutgoingHttpHeaders) }
      const answer = await fetchOnce(edge.port, { ...options, headers })
      assert.deepEqual([answer.status, sleeper.wakes], [200, 1], options.path ?? 'traffic token')
    }
  })

  it('is resumed by everyone if its agent needs no token', async () => {
    await using edge = await sleepyEdge()
    const sleeper = edge.sleeper({ secure: false })
    sleeper.map(envd, (await echo(edge)).port)
    sleeper.rise.resolve()
    const answer = await fetchOnce(edge.port, { path: '/health', headers: to(sleeper, envd) })
    assert.deepEqual([answer.status, sleeper.wakes], [200, 1])
  })

  it('is neither resumed nor looked up by a preflight of a browser', async () => {
    await using edge = await sleepyEdge()
    const sleeper = edge.sleeper()
    sleeper.rise.resolve()
    for (const port of [80, envd]) {
      const headers = {
        ...to(sleeper, port),
        Origin: 'http://a.test',
        'Access-Control-Request-Method': 'GET',
      }
      assert.equal((await fetchOnce(edge.port, { method: 'OPTIONS', headers })).status, 204)
    }
    assert.deepEqual([edge.searches, sleeper.wakes], [0, 0])
  })
})

describe('a hidden sandbox', () => {
  it('gets the same answer as one that never existed, word by word, unless it runs or may be resumed', async () => {
    await using edge = await sleepyEdge()
    const gone = edge.sandbox()
    gone.remove()
    const running = edge.sandbox()
    const sleeping = edge.sleeper()
    const ask = async (sandboxID: string, port: number, path: string) => {
      const answers = []
      for (const headers of [
        to({ sandboxID }, port),
        { Host: 'localhost', 'E2b-Sandbox-Id': sandboxID, 'E2b-Sandbox-Port': `${port}` },
        { ...to({ sandboxID }, port), Connection: 'Upgrade', Upgrade: 'websocket' },
      ]) {
        const named = { ...headers, 'X-Request-Id': 'mine' }
        const { status, rawHeaders, body } = await fetchOnce(edge.port, { path, headers: named })
        const head = rawHeaders.filter((_, at) => rawHeaders[at - (at % 2)] !== 'Date')
        answers.push([status, head.join(), body].join('\n').replaceAll(sandboxID, 'ID'))
      }
      return answers
    }
    for (const port of [80, envd]) {
      const unknown = await ask('isandbox0', port, '/')
      assert.match(unknown[0]!, /^502[\s\S]*The sandbox was not found/)
      assert.deepEqual(await ask(gone.sandboxID, port, '/'), unknown)
    }
    // The answer for an internal route of the agent does not reveal whether the sandbox exists.
    const internal = await ask('isandbox0', envd, '/init?x')
    assert.match(internal[0]!, /^404/)
    for (const { sandboxID } of [gone, running, sleeping]) {
      assert.deepEqual(await ask(sandboxID, envd, '/init?x'), internal)
    }
    assert.equal(sleeping.wakes, 0)
  })
})
