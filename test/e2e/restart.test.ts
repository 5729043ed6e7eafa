/** One Warren whose port stays open while it restarts, as systemd keeps it. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { Agent, get, type IncomingMessage } from 'node:http'
import { after, before, test } from 'node:test'
import { Sandbox } from 'e2b'
import { eventually } from '../support/eventually.ts'
import { type ReservedPort, reservePort, spinUntilEnd } from '../support/reserved-port.ts'
import { anyIsolation, noWarmPool, portOf, seat, startWarren, type Warren } from '../support/warren.ts'

const port = portOf(anyIsolation, seat)
let reserved: ReservedPort
let warren: Warren

before(async () => {
  reserved = await reservePort(port)
  warren = await start(false, 0)
})
after(async () => {
  await warren?.stop()
  reserved?.close()
})

const start = (keepData: boolean, stopDelaySeconds: number) =>
  startWarren(anyIsolation, {
    keepData,
    name: 'restarting',
    program: reserved.launcher,
    settings: { ...noWarmPool, WARREN_STOP_DELAY_SECONDS: String(stopDelaySeconds) },
  })

test('clients that go on while Warren restarts on a busy machine see slow requests and no error', async (context) => {
  const sandbox = await Sandbox.create(warren.client)
  const errors: string[] = []
  let [goesOn, count, slowestMs] = [true, 0, 0]
  const load = async (client: number) => {
    for (let turn = client; goesOn; turn++) {
      const begun = performance.now()
      const work = [
        () => sandbox.commands.run('echo on'),
        () => Sandbox.connect(sandbox.sandboxId, warren.client),
        () => sandbox.files.write(`/tmp/note-${client}`, 'x'),
        () => warren.api('/v2/sandboxes'),
      ][turn % 4]!
      await work().catch(
        (error) => void errors.push(`${error.constructor.name}: ${error.message} ${error.cause ?? ''}`),
      )
      slowestMs = Math.max(slowestMs, performance.now() - begun)
      count++
    }
  }
  spinUntilEnd(context)
  const clients = [0, 1, 2, 3, 4, 5].map(load)
  await eventually(async () => assert.ok(count > 12))
  for (const nextDelaySeconds of [1, 0]) {
    assert.equal(await warren.stop(), 0)
    warren = await start(true, nextDelaySeconds)
    const before = count
    await eventually(async () => assert.ok(count > before + 12))
  }
  goesOn = false
  await Promise.all(clients)
  assert.deepEqual(errors, [], `${errors.length} of ${count} requests failed`)
  console.log(`${count} requests over two restarts, the slowest took ${Math.round(slowestMs)} ms`)
  await sandbox.kill()
})

test('no program that Warren starts has the port', async () => {
  const sandbox = await Sandbox.create(warren.client)
  const own = readlinkSync(`/proc/${warren.pid}/fd/3`)
  assert.match(own, /^socket:/)
  const holders = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && has(pid, own))
  assert.deepEqual(new Set(holders), new Set([String(warren.pid), String(reserved.pid)]))
  await sandbox.kill()
})

test('during the stop delay Warren serves and asks clients to leave, until a second signal', async (context) => {
  assert.equal(await warren.stop(), 0)
  warren = await start(true, 100)
  const agent = new Agent({ keepAlive: true })
  context.after(() => agent.destroy())
  const ask = async (path: string) => {
    const [response] = await once(get(`${warren.url}${path}`, { agent }), 'response')
    const { statusCode, headers } = response as IncomingMessage
    return { status: statusCode, connection: headers.connection, body: (await response.toArray()).join('') }
  }
  assert.deepEqual((await ask('/health')).connection, 'keep-alive')
  const begun = performance.now()
  const stopped = warren.stop()
  await eventually(async () =>
    assert.deepEqual(await ask('/health/ready'), {
      status: 503,
      connection: 'close',
      body: '{"code":503,"message":"The server is closing."}',
    }),
  )
  for (let turn = 0; turn < 20; turn++) {
    const { status, connection } = await ask('/health')
    assert.deepEqual([status, connection], [200, 'close'])
  }
  const sandbox = await Sandbox.create(warren.client)
  assert.equal((await sandbox.commands.run('echo served')).stdout, 'served\n')
  await sandbox.kill()
  process.kill(warren.pid, 'SIGTERM')
  assert.equal(await stopped, 0)
  assert.ok(performance.now() - begun < 90_000)
  warren = await start(true, 0)
})

function has(pid: string, socket: string): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`) === socket)
  } catch {
    // It has ended, or the descriptor was closed.
    return false
  }
}
