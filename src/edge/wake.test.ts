import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import net, { type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { AppError, type ErrorCode } from '../lib/app-error.ts'
import { agentToken, edgeFixture, fetchOnce, type Reply, rawExchange, textOf, to } from './edge-fixture.ts'
import { echo, type SleepyEdge, sleepyEdge, until } from './sleepy-edge-fixture.ts'

const envd = 49983
const withToken = { 'X-Access-Token': agentToken }
/** A time limit for requests that would wait forever if they were wrongly admitted. */
const impatient = () => ({ signal: AbortSignal.timeout(120_000) })

describe('traffic for a sleeping sandbox', () => {
  it('waits until it runs and then gets through, in any amount and form', async () => {
    await using edge = await sleepyEdge()
    const sleeper = edge.sleeper()
    const service = await echo(edge)
    service.on('upgrade', (_request: IncomingMessage, socket: Socket, head: Buffer) => {
      socket.write('HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
      if (head.length > 0) socket.unshift(head)
      socket.pipe(socket)
    })
    sleeper.map(80, service.port)
    sleeper.map(envd, service.port)
    const byHeader = {
      Host: 'localhost',
      'E2b-Sandbox-Id': sleeper.sandboxID,
      'E2b-Sandbox-Port': `${envd}`,
      ...withToken,
    }
    const replies = Array.from({ length: 50 }, (_, i) =>
      fetchOnce(edge.port, { path: `/${i}`, headers: i % 2 ? to(sleeper, 80) : byHeader }),
    )
    const socket = net.connect(edge.port, '127.0.0.1')
    const { Host } = to(sleeper, 80)
    socket.write(`GET / HTTP/1.1\r\nHost: ${Host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly `)
    await until(() => sleeper.wakes === 51)
    socket.write('bytes')
    sleeper.rise.resolve()
    for (const [i, reply] of (await Promise.all(replies)).entries()) {
      assert.deepEqual([reply.status, reply.body], [200, `GET /${i} `])
    }
    let seen = ''
    for await (const chunk of socket) {
      seen += chunk
      if (seen.endsWith('early bytes')) break
    }
    assert.match(seen, /^HTTP\/1\.1 101 Go\r\n[\s\S]*\r\n\r\nearly bytes$/)
    assert.equal((await fetchOnce(edge.port, { headers: to(sleeper, 80) })).status, 200)
    assert.equal(edge.searches, 51, 'a running sandbox is not looked for')
  })

  it('keeps its body whole, by length, in chunks, and with `Expect: 100-continue`', async () => {
    await using edge = await sleepyEdge()
    const sleeper = edge.sleeper()
    const service = await edge.service(async (request, response) => {
      const hash = createHash('sha256')
      for await (const chunk of request) hash.update(chunk)
      response.end(hash.digest('hex'))
    })
    sleeper.map(80, service.port)
    const body = Buffer.alloc(5 * 1024 * 1024, 'five megabytes, more or less; ')
    const expected = createHash('sha256').update(body).digest('hex')
    const framings: http.OutgoingHttpHeaders[] = [
      { 'Content-Length': body.length },
      { 'Transfer-Encoding': 'chunked' },
      { 'Content-Length': body.length, Expect: '100-continue' },
    ]
    const answers = framings.map(async (framing) => {
      const headers = { ...to(sleeper, 80), ...framing }
      const request = http.request({ port: edge.port, method: 'POST', headers, agent: false })
      const answered = once(request, 'response') as Promise<[IncomingMessage]>
      if (framing.Expect) {
        request.flushHeaders()
        await once(request, 'continue')
        assert.ok(edge.routes.get(sleeper.sandboxID), 'the sandbox itself asks for the body')
      }
      request.end(body)
      return textOf((await answered)[0])
    })
    await until(() => sleeper.wakes === framings.length)
    sleeper.rise.resolve()
    assert.deepEqual(await Promise.all(answers), [expected, expected, expected])
  })

  it('is answered in order when several requests share a connection', async () => {
    await using edge = await sleepyEdge()
    const sleeper = edge.sleeper()
    sleeper.map(80, (await echo(edge)).port)
    const head = (path: string) => `GET ${path} HTTP/1.1\r\nHost: ${to(sleeper, 80).Host}\r\n`
    const text = rawExchange(edge.port, `${head('/1')}\r\n${head('/2')}Connection: close\r\n\r\n`)
    await until(() => sleeper.wakes === 1)
    sleeper.rise.resolve()
    assert.match(await text, /200 OK[\s\S]*GET \/1[\s\S]*200 OK[\s\S]*GET \/2/)
  })

  it('may be dropped by its client: the resume continues, and the sandbox gets no request of that client', async () => {
    await using edge = await sleepyEdge({ connectionLimit: 1 })
    const sleeper = edge.sleeper()
    const seen: (string | undefined)[] = []
    const service = await edge.service((request, response) => {
      seen.push(request.url)
      response.end()
    })
    sleeper.map(80, service.port)
    const headers = { ...to(sleeper, 80), 'Content-Length': 9 }
    const leaving = http.request({ port: edge.port, method: 'POST', path: '/left', headers, agent: false })
    leaving.on('error', () => {}).write('half')
    await until(() => sleeper.wakes === 1)
    leaving.destroy()
    // The only allowed connection counts until the edge has noticed the disconnect.
    let staying: Promise<Reply>
    const entered = until(() => sleeper.wakes === 2)
    do {
      staying = fetchOnce(edge.port, { path: '/stayed', headers: to(sleeper, 80) })
    } while (await Promise.race([staying, entered]))
    sleeper.rise.resolve()
    assert.equal((await staying).status, 200)
    assert.deepEqual(seen, ['/stayed'])
  })

  it('is not forwarded for a client that left while the sandbox was looked up', async () => {
    const search = Promise.withResolvers<undefined>()
    let searches = 0
    await using edge = await edgeFixture({
      connectionLimit: 1,
      findResumable() {
        searches++
        return search.promise
      },
    })
    const sandbox = edge.sandbox()
    const route = edge.routes.get(sandbox.sandboxID)!
    sandbox.remove()
    sandbox.map(80, (await echo(edge)).port)
    const leaving = http.get({ port: edge.port, headers: to(sandbox, 80), agent: false })
    leaving.on('error', () => {})
    await until(() => searches === 1)
    leaving.destroy()
    await until(() => edge.sockets.size === 0)
    edge.routes.set(route)
    search.resolve(undefined)
    for (const path of ['/1', '/2']) {
      const { body } = await fetchOnce(edge.port, { path, headers: to(sandbox, 80) })
      assert.equal(body, `GET ${path} `, 'its place is not taken by one who is gone')
    }
  })

  it('finds the sandbox that another request resumed during its look-up', async () => {
    await using edge = await edgeFixture({
      async findResumable() {
        edge.routes.set(route)
        return undefined
      },
    })
    const sandbox = edge.sandbox()
    const route = edge.routes.get(sandbox.sandboxID)!
    sandbox.remove()
    sandbox.map(80, (await echo(edge)).port)
    assert.equal((await fetchOnce(edge.port, { headers: to(sandbox, 80) })).body, 'GET / ')
  })

  it('is reset when the edge closes', async () => {
    await using edge = await sleepyEdge()
    const sleeper = edge.sleeper()
    const waiting = fetchOnce(edge.port, { headers: to(sleeper, 80), ...impatient() })
    const broken = assert.rejects(waiting, { code: 'ECONNRESET' })
    await until(() => sleeper.wakes === 1)
    edge.close()
    await broken
  })

  it('is limited like open connections, with those to the agent counted apart', async () => {
    await using edge = await sleepyEdge({ connectionLimit: 2 })
    const [sleeper, other] = [edge.sleeper(), edge.sleeper()]
    const service = await echo(edge)
    for (const port of [80, 81, envd]) sleeper.map(port, service.port)
    const waiting = [80, 81, envd].map((port) =>
      fetchOnce(edge.port, { headers: { ...to(sleeper, port), ...withToken } }),
    )
    await until(() => sleeper.wakes === 3)
    const full = await fetchOnce(edge.port, { headers: to(sleeper, 80), ...impatient() })
    const message = 'The sandbox has too many concurrent incoming connections (limit: 2)'
    assert.deepEqual([full.status, JSON.parse(full.body).message], [429, message])
    other.rise.reject(new AppError('conflict', 'busy'))
    for (let i = 0; i < 5; i++) {
      assert.equal((await fetchOnce(edge.port, { headers: to(other, 80) })).status, 409)
    }
    sleeper.rise.resolve()
    for (const { status } of await Promise.all(waiting)) assert.equal(status, 200)
    assert.equal(sleeper.wakes, 3)
  })
})

describe('traffic for a sandbox whose resume fails', () => {
  const failing = async (edge: SleepyEdge, error: unknown, headers: http.OutgoingHttpHeaders = {}) => {
    const sleeper = edge.sleeper()
    sleeper.rise.reject(error)
    const reply = await fetchOnce(edge.port, { headers: { ...to(sleeper, 80), ...headers } })
    return { ...reply, sandboxId: sleeper.sandboxID }
  }

  it('the answer distinguishes a limit, a change in progress, and a sandbox that is gone', async () => {
    await using edge = await sleepyEdge()
    const cases: [ErrorCode, number, string][] = [
      ['limit_reached', 429, 'You run 20 sandboxes already'],
      ['conflict', 409, 'The sandbox is still transitioning. Try again in a moment.'],
      ['not_found', 502, 'The sandbox was not found'],
    ]
    for (const [code, status, message] of cases) {
      const error = new AppError(code, 'You run 20 sandboxes already')
      const answer = await failing(edge, error)
      assert.equal(answer.status, status)
      assert.deepEqual(JSON.parse(answer.body), { sandboxId: answer.sandboxId, message, code: status })
    }
  })

  it('an error that waiting does not cure is shown with its message, and with the code that clients know', async () => {
    await using edge = await sleepyEdge()
    const error = new AppError('conflict', 'Resume it with memory: false', { slug: 'guest_unresponsive' })
    const { status, body, sandboxId } = await failing(edge, error)
    const answerBody = {
      message: 'Resume it with memory: false',
      code: 409,
      error_code: 'guest_unresponsive',
    }
    assert.deepEqual([status, JSON.parse(body)], [409, { sandboxId, ...answerBody }])
  })

  it('any other error is a routing failure, without details that only the log may have', async () => {
    await using edge = await sleepyEdge()
    const known = await failing(edge, new AppError('no_space', 'The disk is full', { cause: 'secret' }))
    assert.equal(known.body, 'Unexpected error when routing request: The disk is full')
    const unknown = await failing(edge, new Error('secret'))
    assert.match(unknown.body, /^Unexpected error when routing request: the sandbox could not be resumed\. /)
    assert.doesNotMatch(unknown.body, /secret/)
    assert.deepEqual([known.status, unknown.status], [500, 500])
  })

  it('a page shows the message of a limit as text', async () => {
    await using edge = await sleepyEdge()
    const browser = { 'User-Agent': 'Mozilla/5.0 Firefox/140.0', Accept: 'text/html' }
    const { body } = await failing(edge, new AppError('limit_reached', 'a <b> & c'), browser)
    assert.match(body, /<p>a &#60;b&#62; &#38; c<\/p>/)
  })

  it('a sandbox that was removed before the request got there is reported as not found', async () => {
    await using edge = await sleepyEdge()
    const sleeper = edge.sleeper()
    sleeper.map(80, (await echo(edge)).port)
    edge.routes.onAdd(() => sleeper.remove())
    sleeper.rise.resolve()
    const { status, body } = await fetchOnce(edge.port, { headers: to(sleeper, 80) })
    assert.deepEqual([status, JSON.parse(body).message], [502, 'The sandbox was not found'])
    assert.equal(sleeper.wakes, 1)
  })

  it('a failed look-up is a routing failure, and a sandbox that no node has is not found', async () => {
    await using broken = await sleepyEdge({ findResumable: () => Promise.reject(new Error('secret')) })
    const failed = await fetchOnce(broken.port, { headers: to({ sandboxID: 'iany' }, 80) })
    assert.equal(failed.status, 500)
    assert.match(failed.body, /^Unexpected error when routing request: could not look the sandbox up\. /)
    await using edge = await sleepyEdge()
    const { status, body } = await fetchOnce(edge.port, { headers: to({ sandboxID: 'inone' }, 80) })
    const message = 'The sandbox was not found'
    assert.deepEqual([status, JSON.parse(body)], [502, { sandboxId: 'inone', message, code: 502 }])
    assert.equal(edge.searches, 1)
  })
})
