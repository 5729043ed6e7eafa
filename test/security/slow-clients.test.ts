/**
 * Clients that fill the server with connections and then send next to nothing, or read nothing: another team's requests go on
 * being answered, and memory and open files stay bounded.
 */
import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { issueCertificate, makeAuthority } from '../../src/lib/certificates.ts'
import { delay } from '../../src/lib/clock.ts'
import { countOf } from '../support/count-of.ts'
import { eventually } from '../support/eventually.ts'
import { type SlowClient, slowClients } from '../support/slow-clients.ts'
import {
  anyIsolation,
  noWarmPool,
  portOf,
  repoFolder,
  seat,
  startWarren,
  type Warren,
} from '../support/warren.ts'

/** What the server's process may open. Connections of clients may take a third of it. */
const openFiles = countOf({ short: 1200, long: 6000 })
const clients = Math.floor(openFiles / 3) + 50
/** Some kinds take much of the memory with few connections. */
const fewClients = countOf({ short: 20, long: 60 })
const maxGrowthMB = 400
const requests = countOf({ short: 4, long: 20 })
const maxTries = 30
const domain = 'warren.localhost'

/** Accepts, and never answers a request; agrees to every upgrade and then says nothing. */
const service = `
import socket
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(('0.0.0.0', 8000))
server.listen(1000)
kept = []
while True:
    one, _ = server.accept()
    kept.append(one)
    if b'pgrade' in one.recv(4096):
        one.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n')
`

type Asked = { path: string; key?: string; host?: string; body?: unknown; method?: string }

describe('slow clients', () => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-slow-'))
  const inFolder = (name: string) => join(folder, name)
  const port = portOf(anyIsolation, seat)
  let warren: Warren
  let otherKey: string
  let otherSandbox: string
  let kinds: Record<string, SlowClient>

  function ask({ path, key = '', host = 'localhost', body, method }: Asked): Promise<string> {
    return new Promise((resolve, reject) => {
      const headers = { Host: host, 'X-API-Key': key, 'Content-Type': 'application/json' }
      const options = { host: '127.0.0.1', port, path, headers, rejectUnauthorized: false, agent: false }
      const usual = body === undefined ? 'GET' : 'POST'
      const request = https.request({ ...options, method: method ?? usual, timeout: 60_000 }, (answer) => {
        let text = ''
        answer.on('data', (chunk) => {
          text += chunk
        })
        answer.on('end', () =>
          answer.statusCode! < 300 ? resolve(text) : reject(new Error(`${answer.statusCode}: ${text}`)),
        )
        answer.on('error', reject)
      })
      request.on('timeout', () => request.destroy(new Error('no answer')))
      request.on('error', reject)
      request.end(body === undefined ? undefined : JSON.stringify(body))
    })
  }

  const create = async (key: string): Promise<string> =>
    JSON.parse(
      await ask({ path: '/sandboxes', key, body: { templateID: 'base', timeout: 3600, secure: false } }),
    ).sandboxID

  before(async () => {
    const leaf = issueCertificate(makeAuthority('slow'), { names: ['localhost', '*.localhost'], days: 1 })
    writeFileSync(inFolder('cert.pem'), leaf.certificate)
    writeFileSync(inFolder('key.pem'), leaf.key)
    const launch = `#!/bin/sh\nexec prlimit --nofile=${openFiles} -- ${repoFolder}/bin/warren "$@"\n`
    writeFileSync(inFolder('launch'), launch)
    chmodSync(inFolder('launch'), 0o755)
    warren = await startWarren(anyIsolation, {
      name: 'slow',
      program: inFolder('launch'),
      settings: {
        ...noWarmPool,
        WARREN_DOMAIN: domain,
        WARREN_TLS_CERT: inFolder('cert.pem'),
        WARREN_TLS_KEY: inFolder('key.pem'),
        WARREN_CONNECTIONS_PER_SANDBOX: String(clients),
      },
    })
    const asAdmin = (path: string, body: object) =>
      new Promise<Record<string, string>>((resolve, reject) => {
        const headers = { 'X-Admin-Token': warren.adminToken, 'Content-Type': 'application/json' }
        const options = { host: '127.0.0.1', port, path, headers, rejectUnauthorized: false, method: 'POST' }
        const request = https.request(options, async (answer) =>
          resolve(JSON.parse((await answer.toArray()).join(''))),
        )
        request.on('error', reject).end(JSON.stringify(body))
      })
    await asAdmin('/admin/teams', { name: 'other' })
    otherKey = (await asAdmin('/admin/teams/other/api-keys', { name: 'k' })).key!
    otherSandbox = await create(otherKey)
    const silent = await create(warren.apiKey)
    const file = `/files?path=/home/user/service.py`
    await upload(silent, file, service)
    await start(silent, 'ulimit -n 4096 || ulimit -n $(ulimit -Hn); exec python3 /home/user/service.py')
    kinds = slowClients({ port, apiKey: warren.apiKey, services: [`8000-${silent}.${domain}`] })
  })
  after(async () => {
    await warren?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const agentOf = (sandboxID: string) => `49983-${sandboxID}.${domain}`

  async function upload(sandboxID: string, path: string, text: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const headers = { Host: agentOf(sandboxID), 'Content-Type': 'application/octet-stream' }
      const options = { host: '127.0.0.1', port, path, headers, rejectUnauthorized: false, method: 'POST' }
      const request = https.request(options, async (answer) => {
        const said = (await answer.toArray()).join('')
        if (answer.statusCode === 200) resolve()
        else reject(new Error(said))
      })
      request.on('error', reject).end(text)
    })
  }

  /** The command goes on when the connection is cut. */
  async function start(sandboxID: string, command: string): Promise<void> {
    const json = Buffer.from(JSON.stringify({ process: { cmd: '/bin/bash', args: ['-c', command] } }))
    const envelope = Buffer.alloc(5)
    envelope.writeUInt32BE(json.length, 1)
    const headers = {
      Host: agentOf(sandboxID),
      'Content-Type': 'application/connect+json',
      'Connect-Protocol-Version': '1',
      Authorization: `Basic ${Buffer.from('user:').toString('base64')}`,
    }
    const path = '/process.Process/Start'
    const options = { host: '127.0.0.1', port, path, headers, rejectUnauthorized: false, method: 'POST' }
    await new Promise<void>((resolve, reject) => {
      const request = https.request(options, (answer) => answer.once('data', () => resolve()))
      request.on('error', reject).end(Buffer.concat([envelope, json]))
    })
  }

  const status = () => readFileSync(`/proc/${warren.pid}/status`, 'utf8')
  const memoryMB = () => Number(/^VmRSS:\s+(\d+)/m.exec(status())![1]) / 1024
  const filesOpen = () => readdirSync(`/proc/${warren.pid}/fd`).length

  /** Clients come back some time after they were dropped. */
  function attack(kind: SlowClient, count: number) {
    const open = new Set<Socket>()
    let isOver = false
    let dropped = 0
    const connect = () => {
      if (isOver) return
      const socket = kind.open()
      open.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        open.delete(socket)
        dropped++
        setTimeout(connect, 1000 + 2000 * Math.random()).unref()
      })
    }
    const connecting = (async () => {
      for (let at = 0; at < count; at++) {
        connect()
        if (at % 20 === 19) await delay(10)
      }
    })()
    const dripping = setInterval(() => {
      for (const socket of open) if (kind.drips && socket.writable && !socket.connecting) socket.write('x')
    }, 200)
    return {
      connecting,
      dropped: () => dropped,
      open: () => open.size,
      stop() {
        isOver = true
        clearInterval(dripping)
        for (const socket of open) socket.destroy()
      },
    }
  }

  /** Connections may be rejected while the server makes place. Returns how often. */
  async function untilAnswered(asked: Asked): Promise<number> {
    for (let rejected = 0; ; rejected++) {
      try {
        await ask(asked)
        return rejected
      } catch (error) {
        if (rejected >= maxTries) throw error
        await delay(100)
      }
    }
  }

  const names = Object.keys(slowClients({ port, apiKey: '', services: [] }))
  for (const name of names) {
    it(`that ${name} keep no other team from being answered`, { timeout: 600_000 }, async (t) => {
      const before = memoryMB()
      const fills = !name.includes('250')
      const attackers = attack(kinds[name]!, fills ? clients : fewClients)
      t.after(() => attackers.stop())
      await attackers.connecting
      await eventually(() => assert.ok(attackers.dropped() > 0))
      let [rejected, growth, files] = [0, 0, 0]
      for (let asked = 0; asked < requests; asked++) {
        rejected += await untilAnswered({ path: '/v2/sandboxes', key: otherKey })
        rejected += await untilAnswered({ path: '/health', host: agentOf(otherSandbox) })
        growth = Math.max(growth, memoryMB() - before)
        files = Math.max(files, filesOpen())
      }
      t.diagnostic(
        `${attackers.open()} open, ${attackers.dropped()} dropped; others were rejected ${rejected} times in ` +
          `${2 * requests} requests; ${Math.round(growth)} MB more, ${files} files`,
      )
      assert.ok(growth < maxGrowthMB, `${growth} MB`)
      assert.ok(files < 0.9 * openFiles, `${files} files`)
    })
  }
})
