import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, suite, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { ManualClock } from '../lib/clock.ts'
import { addonFile } from '../lib/native.ts'
import { token } from './agent-suite.ts'
import { AgentLog } from './log/agent-log.ts'
import { rehearseCommand } from './rehearsal.ts'
import { createAgent } from './server.ts'

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

async function openAgent(rehearse: (server: Server) => Promise<unknown>) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-rehearsal-'))
  const clock = new ManualClock()
  const log = new AgentLog(clock)
  const { server, services } = createAgent({
    addon: addonFile()!,
    clock,
    log,
    rehearse,
    runFolder: folder,
    systemRoot: folder,
  })
  closers.push(() => {
    server.closeAllConnections()
    server.close()
    rmSync(folder, { recursive: true })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const { processes } = await services()
  const init = async (identity: object) => {
    const body = JSON.stringify({ accessToken: token, ...identity })
    const headers = { 'x-access-token': token }
    const answer = await fetch(`http://127.0.0.1:${port}/init`, { method: 'POST', headers, body })
    assert.equal(answer.status, 204)
  }
  return { processes, services, clock, log, init }
}

/** How often an agent that was given these identities has rehearsed half a second later. */
async function countRehearsals(...identities: object[]): Promise<number> {
  let count = 0
  const { services, clock, init } = await openAgent(async () => void count++)
  for (const identity of identities) await init(identity)
  clock.advance(500)
  for (let turns = 0; turns < 5; turns++) await services().then(() => turn())
  return count
}

/** What an agent of this identity was answered in its rehearsal. */
async function rehearseAs(identity: object) {
  const answer = Promise.withResolvers<string>()
  const { processes, clock, log, init } = await openAgent(async (server) => {
    answer.resolve(await rehearseCommand(server))
  })
  await init({ hasOwner: false, ...identity })
  clock.advance(500)
  return { answer: await answer.promise, processes, log }
}

suite('a sandbox that waits for an owner', () => {
  test('rehearses a command', async () => {
    assert.equal(await countRehearsals({ hasOwner: false }), 1)
    const { answer } = await rehearseAs({ defaultUser: 'root', defaultWorkdir: '/' })
    assert.match(answer, /^HTTP\/1.1 200 OK\r\n/)
    // The user id of root.
    assert.ok(answer.includes(`"stdout":"${Buffer.from('0\n').toString('base64')}"`), answer)
    assert.match(answer, /"exit status 0"/)
  })

  test('does not rehearse once it has an owner, nor does a sandbox that had one from the start', async () => {
    assert.equal(await countRehearsals({ hasOwner: false }, {}), 0)
    assert.equal(await countRehearsals({}), 0)
  })

  test('keeps nothing of the rehearsal: no process, no log', async () => {
    const { processes, log, answer } = await rehearseAs({ defaultUser: 'root', defaultWorkdir: '/' })
    const pid = Number(/"pid":(\d+)/.exec(answer)?.[1])
    assert.ok(pid > 0)
    assert.throws(() => processes.table.findOrEnded({ selector: { case: 'pid', value: pid } } as never))
    assert.equal(log.readAfter(0, 1_000_000), undefined)
  })

  test('skips the rehearsal if there is no such user', async () => {
    const { answer } = await rehearseAs({ defaultUser: 'nobody-of-this-name' })
    assert.match(answer, /invalid username/)
  })
})
