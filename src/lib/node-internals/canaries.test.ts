/**
 * One test for each undocumented part of Node or V8 that this folder uses. An upgrade that changes such a part fails here,
 * with advice, and does not first show as a slow server or a lost answer. README.md has the list.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readlinkSync } from 'node:fs'
import { Agent, type ClientRequest, createServer, get, type IncomingMessage } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, connect, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { duplexPair } from 'node:stream'
import { suite, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { nodeFlags } from '../../agent/node-flags.ts'
import { failConnection, forgetSentRequest, giveConnection, sentRequestOf } from './client-connection.ts'
import { answerHalfOpenClients } from './half-open-http.ts'
import { takeHttp1Parser } from './http1-listener.ts'
import { pauseReading } from './paused-message.ts'
import { descriptorOf } from './socket-descriptor.ts'

async function portOf(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}

/** The output of a program that Node runs with the agent's flags. */
function printedBy(source: string): string {
  const words = [...nodeFlags, '--input-type=module', '-e', source]
  return execFileSync(process.execPath, words, { encoding: 'utf8' }).trim()
}

const fileOf = (name: string) => JSON.stringify(join(import.meta.dirname, name))

test('socket-descriptor.ts: a connection has its descriptor until it is closed', async (context) => {
  const server = createServer()
  const socket = connect(await portOf(server), '127.0.0.1')
  context.after(() => server.close())
  await once(socket, 'connect')
  const advice = 'Node keeps the descriptor of a socket elsewhere: the egress gate rejects all connections.'
  assert.match(readlinkSync(`/proc/self/fd/${descriptorOf(socket)}`), /^socket:/, advice)
  await once(socket.destroy(), 'close')
  assert.equal(descriptorOf(socket), undefined, advice)
})

suite('half-open-http.ts', () => {
  /** The answer that a client gets if it closes its side first. */
  async function answerTo(prepare: (server: ReturnType<typeof createServer>) => void): Promise<string> {
    const server = createServer((request, response) => {
      // Node handles the end of the connection first.
      request.socket.once('end', () => setImmediate(() => response.end('whole')))
    })
    prepare(server)
    const socket = connect({ port: await portOf(server), host: '127.0.0.1', allowHalfOpen: true })
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.end('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await once(socket, 'close')
    server.close()
    return text
  }

  test('a client that has closed its side gets its answer', async () => {
    const advice = 'Node no longer heeds httpAllowHalfOpen: clients of the egress gate lose answers.'
    assert.match(await answerTo(answerHalfOpenClients), /whole/, advice)
  })

  test('Node without the change sends no such answer', async () => {
    assert.equal(await answerTo(() => {}), '', 'Node answers such clients by itself: remove the file.')
  })
})

test('http1-listener.ts: an HTTPS server has one listener for its connections, the parser of HTTP/1.1', async () => {
  const server = createHttpsServer()
  const advice =
    'Node parses HTTP/1.1 elsewhere: app/doors/http2.ts has to find the parser, or all HTTPS fails.'
  assert.equal(server.listenerCount('secureConnection'), 1, advice)
  const parse = takeHttp1Parser(server)
  assert.equal(server.listenerCount('secureConnection'), 0)
  const [near, far] = duplexPair()
  const asked = once(server, 'request')
  parse(far)
  near.write('GET /here HTTP/1.1\r\nHost: x\r\n\r\n')
  const [request] = (await asked) as [IncomingMessage]
  assert.equal(request.url, '/here', advice)
  near.destroy()
})

test('paused-message.ts: a message resumes its paused connection when it reads, and does not while it is held', async (context) => {
  const server = createServer((_, response) => void response.write('first'))
  context.after(() => server.closeAllConnections())
  context.after(() => server.close())
  const [message] = (await once(get({ port: await portOf(server), agent: false }), 'response')) as [
    IncomingMessage,
  ]
  const isPausedAfterRead = () => {
    message.pause()
    message.socket.pause()
    message._read(1)
    return message.socket.isPaused()
  }
  const advice = 'A message reads its connection in another way: see whether chunk-pacer.test.ts still holds.'
  assert.equal(isPausedAfterRead(), false, advice)
  let isPaused = true
  pauseReading(message, () => isPaused)
  assert.equal(isPausedAfterRead(), true, advice)
  isPaused = false
  assert.equal(isPausedAfterRead(), false, advice)
})

suite('client-connection.ts', () => {
  const advice =
    "Node's HTTP client and its agent work together in another way: see http-relay/upstream-pool.ts."

  /** An agent that passes the outcome of each connection to Node's client. */
  class OwnAgent extends Agent {
    readonly open: (port: number) => Socket | Error
    constructor(open: (port: number) => Socket | Error) {
      super({ keepAlive: true })
      this.open = open
    }
    addRequest(request: ClientRequest, { port }: { port: number }): void {
      const outcome = this.open(port)
      if (outcome instanceof Error) failConnection(request, outcome)
      else giveConnection(request, outcome)
    }
  }

  test('a connection carries one request after another, and knows the last one', async (context) => {
    const server = createServer((_, response) => response.end('x'))
    context.after(() => server.close())
    const port = await portOf(server)
    const socket = connect(port, '127.0.0.1')
    const agent = new OwnAgent(() => socket)
    for (const path of ['/one', '/two']) {
      const freed = once(socket, 'free')
      const request = get({ host: '127.0.0.1', port, path, agent })
      const [answer] = (await once(request, 'response')) as [IncomingMessage]
      answer.resume()
      await freed
      assert.equal(sentRequestOf(socket), request, advice)
      assert.equal(sentRequestOf(socket)?.shouldKeepAlive, true, advice)
      assert.equal(sentRequestOf(socket)?.res, answer, advice)
      forgetSentRequest(socket)
    }
    socket.destroy()
  })

  test('a connection that cannot be made fails its request', async () => {
    const agent = new OwnAgent(() => new Error('no connection'))
    const [error] = (await once(get({ host: '127.0.0.1', port: 1, agent }), 'error')) as [Error]
    assert.equal(error.message, 'no connection', advice)
  })
})

test('direct-listen.ts: a server listens without the modules for clusters', () => {
  const source = (listen: string) => `
    import { createServer } from 'node:http'
    import { listenDirectly } from ${fileOf('direct-listen.ts')}
    const server = createServer()
    ${listen}
    server.on('listening', () => {
      console.log(server.address().port > 0, process.moduleLoadList.includes('NativeModule cluster'))
      server.close()
    })`
  const advice = 'Node listens in another way: see src/agent/listen.ts, and measure the boot of an agent.'
  assert.equal(printedBy(source('listenDirectly(server, 0)')), 'true false', advice)
  assert.equal(
    printedBy(source('server.listen(0)')),
    'true true',
    'Node no longer loads them: remove the file.',
  )
})

suite('collection.ts', () => {
  test('a large buffer outside the heap makes V8 collect everything at once', () => {
    const source = `
      import { collectGarbage } from ${fileOf('collection.ts')}
      const dead = Array.from({ length: 20 }, () => new WeakRef({ text: 'x'.repeat(1000) }))
      await new Promise(setImmediate)
      collectGarbage(3)
      console.log(dead.filter((one) => one.deref() === undefined).length)`
    assert.equal(
      printedBy(source),
      '20',
      'V8 no longer collects for memory outside of the heap: an idle agent keeps what it does not need. Find another way for collectGarbage (gc() of --expose-gc), and measure the memory of an idle agent.',
    )
  })

  test('V8 drops code after the number of collections that idle-memory.ts resets', () => {
    assert.match(
      execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' }),
      /default: --bytecode-old-age=6\b/,
      'V8 drops unused code at another age than it did: say so in codeAge of src/agent/idle-memory.ts.',
    )
  })
})

test('spent-buffers.ts: V8 exposes its collector at run time, and collects only the young generation if asked to', () => {
  const advice =
    'V8 no longer offers gc({ type: "minor" }) to a running process: streams make it collect its whole heap. Find another way in spent-buffers.ts, or remove it and measure a large upload.'
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as unknown
  assert.equal(typeof gc, 'function', advice)
  assert.doesNotThrow(() => (gc as (options: object) => void)({ type: 'minor' }), advice)
})
