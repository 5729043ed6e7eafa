/** Lines I2 and I5 of what will be tried against us: services and clients that flood the server. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import net, { type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { eventually } from '../support/eventually.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const ports = { hints: 8001, chunks: 8002, headers: 8003, trailers: 8004 }
const service = `
import socket, threading
chunked = b'HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\nTrailer: X\\r\\n\\r\\n'
header = b'X-More: ' + b'x' * 100 + b'\\r\\n'
floods = {
    ${ports.hints}: (b'', b'HTTP/1.1 103 Early Hints\\r\\nLink: </a>\\r\\n\\r\\n' * 1000),
    ${ports.chunks}: (chunked, b'1\\r\\nx\\r\\n' * 10000),
    ${ports.headers}: (b'HTTP/1.1 200 OK\\r\\n', header * 500),
    ${ports.trailers}: (chunked + b'1\\r\\nx\\r\\n0\\r\\n', header * 500),
}
def flood(connection, first, repeated):
    try:
        connection.recv(65536)
        connection.sendall(first)
        while True: connection.sendall(repeated)
    except OSError: connection.close()
def serve(port):
    listener = socket.create_server(('0.0.0.0', port), backlog=64)
    while True:
        threading.Thread(target=flood, args=(listener.accept()[0], *floods[port]), daemon=True).start()
for port in floods: threading.Thread(target=serve, args=(port,)).start()
`

/** The memory that the process has in RAM. */
const residentMB = (pid: number) =>
  Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
/** Far above what bounded exchanges need, and seconds of an unbounded one. */
const maxGrowthMB = 400

for (const isolation of isolations) {
  describe(`floods, ${isolation}`, () => {
    let warren: Warren
    let sandbox: Sandbox
    const open = new Set<Socket>()

    const connect = (): Socket => {
      const { hostname, port } = new URL(warren.url)
      const socket = net.connect(Number(port), hostname).on('error', () => {})
      open.add(socket.once('close', () => open.delete(socket)))
      return socket
    }
    const get = (port: number) => `GET / HTTP/1.1\r\nHost: ${port}-${sandbox.sandboxId}.localhost\r\n\r\n`
    /** Others are served: the API answers, and so does the agent of another sandbox's owner. */
    const othersAreServed = async () => {
      for (let round = 0; round < 10; round++) assert.equal((await warren.api('/v2/sandboxes')).status, 200)
    }

    before(async () => {
      warren = await startWarren(isolation, { settings: noWarmPool })
      sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      await sandbox.files.write('/tmp/service.py', service)
      await sandbox.commands.run('python3 /tmp/service.py', { background: true, timeoutMs: 0 })
      await eventually(async () => {
        const listening = await sandbox.commands.run('grep -c ":1F4[1234]" /proc/net/tcp || true')
        assert.equal(Number(listening.stdout), 4)
      })
    })
    after(async () => {
      for (const socket of open) socket.destroy()
      await sandbox?.kill()
      await warren?.stop()
    })

    it('of a service end its own exchanges: memory is bounded, and others are served', async () => {
      const before = residentMB(warren.pid)
      let max = before
      const answers = new Map<Socket, string>()
      for (const port of Object.values(ports)) {
        for (let client = 0; client < 10; client++) {
          const socket = connect()
          // Half of them do not read.
          if (client % 2 === 0) {
            socket.on('data', (chunk) => {
              answers.set(socket, ((answers.get(socket) ?? '') + chunk.toString('latin1')).slice(-2000))
            })
          }
          socket.write(get(port))
        }
      }
      for (let round = 0; round < 10; round++) {
        await othersAreServed()
        max = Math.max(max, residentMB(warren.pid))
      }
      assert.ok(max - before < maxGrowthMB, `the server grew by ${Math.round(max - before)} MB`)
      const cut = () => [...answers.values()].filter((text) => text.includes('502 Bad Gateway')).length
      // Hints and headers never come to an answer.
      await eventually(() => assert.equal(cut(), 10))
      const log = readFileSync(warren.logFile, 'utf8')
      assert.equal(log.split('interim answers').length - 1, 1, 'the log tells of it once')
    })

    it('of pipelined requests without a key end their connection, and others are served', async () => {
      const request = 'GET /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\n\r\n'
      const closed = Array.from({ length: 5 }, () => {
        const socket = connect()
        socket.on('data', () => {}).write(request.repeat(2000))
        return new Promise((done) => socket.once('close', done))
      })
      await othersAreServed()
      await Promise.all(closed)
      await othersAreServed()
    })

    it('leave the sandbox answering to its owner, who can kill it', async () => {
      assert.equal((await sandbox.commands.run('echo here')).stdout, 'here\n')
      assert.equal(await sandbox.kill(), true)
    })
  })
}
