import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net'
import { Readable } from 'node:stream'
import { afterEach, suite, test } from 'node:test'
import { isAppError } from '../lib/app-error.ts'
import { delay } from '../lib/clock.ts'
import { createAgentClient } from './agent-client.ts'
import { openFlood } from './flood-fixture.ts'

const identity = {
  accessToken: 'secret',
  envVars: { A: '1' },
  defaultUser: 'user',
  defaultWorkdir: '/home/user',
}
const servers: Server[] = []

async function serve(listener: RequestListener, port = 0) {
  const server = createServer(listener)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return { host: '127.0.0.1', port: (server.address() as AddressInfo).port }
}

async function freePort(): Promise<number> {
  const { port } = await serve(() => {})
  await new Promise((resolve) => servers.pop()!.close(resolve))
  return port
}

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

suite('initialize', () => {
  test('hands over the identity and the current token', async () => {
    const seen: unknown[] = []
    const agent = await serve(async (request, response) => {
      let body = ''
      for await (const chunk of request) body += chunk
      seen.push(request.method, request.url, request.headers['x-access-token'], JSON.parse(body))
      response.writeHead(204).end()
    })
    await createAgentClient().initialize(agent, identity, { deadlineMs: 5000, currentToken: 'old' })
    assert.deepEqual(seen, ['POST', '/init', 'old', identity])
  })

  test('waits for an agent that does not listen yet', async () => {
    const port = await freePort()
    const done = createAgentClient().initialize({ host: '127.0.0.1', port }, identity, { deadlineMs: 10_000 })
    await serve((_, response) => response.writeHead(204).end(), port)
    await done
  })

  test('asks an agent less often the longer it takes', async () => {
    let asked = 0
    const busy = createTcpServer((socket) => {
      asked++
      socket.destroy()
    })
    busy.listen(0, '127.0.0.1')
    await once(busy, 'listening')
    const { port } = busy.address() as AddressInfo
    const given = createAgentClient().initialize({ host: '127.0.0.1', port }, identity, { deadlineMs: 1000 })
    await assert.rejects(given, (error) => isAppError(error, 'deadline_exceeded'))
    busy.close()
    // Every four milliseconds would be 250 times.
    assert.ok(asked > 1 && asked < 80, `${asked}`)
  })

  test('tries again when the connection is cut', async () => {
    let calls = 0
    const agent = await serve((request, response) => {
      calls++
      if (calls < 3) request.socket.destroy()
      else response.writeHead(204).end()
    })
    await createAgentClient().initialize(agent, identity, { deadlineMs: 10_000 })
    assert.equal(calls, 3)
  })

  test('says what happened when the deadline passes', async () => {
    const port = await freePort()
    await assert.rejects(
      createAgentClient().initialize({ host: '127.0.0.1', port }, identity, { deadlineMs: 50 }),
      (error) => isAppError(error, 'deadline_exceeded') && /ECONNREFUSED/.test(error.message),
    )
  })

  test('gives up at once when the agent has another token', async () => {
    const agent = await serve((_, response) => response.writeHead(401).end('{"code":401}'))
    await assert.rejects(createAgentClient().initialize(agent, identity, { deadlineMs: 5000 }), (error) =>
      isAppError(error, 'unauthenticated'),
    )
  })

  test("stops when the caller's signal aborts", async () => {
    const port = await freePort()
    const abort = new AbortController()
    const done = createAgentClient().initialize({ host: '127.0.0.1', port }, identity, {
      deadlineMs: 60_000,
      signal: abort.signal,
    })
    abort.abort(new Error('changed my mind'))
    await assert.rejects(done, /changed my mind/)
  })
})

suite("an agent's endless answer is cut off", () => {
  const floods: [what: string, head: string, bytes: string, isHealthy: boolean][] = [
    ['its body', 'HTTP/1.1 500 Oh\r\n\r\n', 'x', false],
    ['a body where none belongs', 'HTTP/1.1 204 No Content\r\n\r\n', 'x', true],
    ['interim answers', '', 'HTTP/1.1 103 Early Hints\r\n\r\n', false],
    ['its head', 'HTTP/1.1 204 No Content\r\n', 'a: b\r\n', false],
    ['its trailers', 'HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n', 'a: b\r\n', false],
  ]
  for (const [what, head, bytes, isHealthy] of floods) {
    test(what, async () => {
      using flood = await openFlood(head, bytes)
      const { endpoint: agent, state } = flood
      const client = createAgentClient()
      assert.equal(await client.isHealthy(agent, { withinMs: 60_000 }), isHealthy)
      const initialized = client.initialize(agent, identity, { deadlineMs: 60_000 })
      if (isHealthy) await initialized
      else
        await assert.rejects(
          initialized,
          (error) => isAppError(error, 'internal') && error.message.length < 1200,
        )
      const signal = new AbortController().signal
      await assert.rejects(client.writeFile(agent, 't', '/f', Readable.from(['x']), signal))
      // What the kernel holds for both sides counts as sent, and is several megabytes.
      assert.ok(state.sentBytes < 128 * 1024 * 1024, `${state.sentBytes} bytes were sent`)
    })
  }
})

/** A server that accepts no connection: the kernel queues a few for it and rejects the others. */
async function busyAgent() {
  const source = `require('node:http').createServer((_, response) => response.writeHead(204).end())
    .listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () { console.log(this.address().port) })`
  const child = spawn(process.execPath, ['-e', source], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(child.stdout, 'data')
  const agent = { host: '127.0.0.1', port: Number(String(line)) }
  child.kill('SIGSTOP')
  return {
    ...agent,
    async fillQueue() {
      const sockets = Array.from({ length: 8 }, () => connect(agent.port, agent.host).on('error', () => {}))
      await once(sockets[0]!, 'connect')
      await delay(300)
      return sockets
    },
    goOn: () => child.kill('SIGCONT'),
    end: () => child.kill('SIGKILL'),
  }
}

suite('isHealthy and findOtherNetworks', () => {
  test('is true for an agent that answers 204', async () => {
    const agent = await serve((_, response) => response.writeHead(204).end())
    assert.equal(await createAgentClient().isHealthy(agent), true)
  })

  test('is false for any other answer and for no answer', async () => {
    const agent = await serve((_, response) => response.writeHead(502).end())
    assert.equal(await createAgentClient().isHealthy(agent), false)
    const nobody = { host: '127.0.0.1', port: await freePort() }
    const asked = performance.now()
    assert.equal(await createAgentClient().isHealthy(nobody, { withinMs: 60_000 }), false)
    assert.ok(performance.now() - asked < 50_000, 'a refusal is known at once')
  })

  test('findOtherNetworks shows the token, and takes nothing but an answer for one', async () => {
    const asked: unknown[] = []
    for (const [status, expected] of [
      [409, 'some'],
      [204, 'none'],
      [404, 'none'],
      [503, 'unknown'],
      [401, 'unknown'],
    ] as const) {
      const agent = await serve((request, response) => {
        asked.push([request.url, request.headers['x-access-token']])
        response.writeHead(status).end()
      })
      const options = { withinMs: 60_000, signal: new AbortController().signal }
      assert.equal(await createAgentClient().findOtherNetworks(agent, 'secret', options), expected)
    }
    assert.deepEqual(asked, Array(5).fill(['/network-namespaces', 'secret']))
    const silent = await serve(() => {})
    const options = { withinMs: 200, signal: new AbortController().signal }
    assert.equal(await createAgentClient().findOtherNetworks(silent, 'secret', options), 'unknown')
  })

  test('waits for an agent that is too busy to take a connection at once', async () => {
    const agent = await busyAgent()
    const queued = await agent.fillQueue()
    try {
      assert.equal(await createAgentClient().isHealthy(agent, { withinMs: 500 }), false)
      const answered = createAgentClient().isHealthy(agent, { withinMs: 120_000 })
      await delay(500)
      agent.goOn()
      assert.equal(await answered, true)
    } finally {
      for (const socket of queued) socket.destroy()
      agent.end()
    }
  })
})
