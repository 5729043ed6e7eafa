import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, suite, test } from 'node:test'
import { ManualClock } from '../lib/clock.ts'
import { addonFile } from '../lib/native.ts'
import { token } from './agent-suite.ts'
import { AgentLog } from './log/agent-log.ts'
import { createAgent } from './server.ts'

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

async function openAgent() {
  const folder = mkdtempSync(join(tmpdir(), 'warren-rehearsal-'))
  const clock = new ManualClock()
  const log = new AgentLog(clock)
  const { server, services } = createAgent({
    ...{ addon: addonFile()!, clock, log },
    ...{ runFolder: folder, systemRoot: folder },
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
  const { processes, services, clock, init } = await openAgent()
  let count = 0
  processes.rehearse = async () => void count++
  for (const identity of identities) await init(identity)
  clock.advance(500)
  await services()
  return count
}

suite('a sandbox that waits for an owner', () => {
  test('rehearses a command', async () => {
    assert.equal(await countRehearsals({ hasOwner: false }), 1)
  })

  test('does not once it has one, nor does a sandbox that had one from the start', async () => {
    assert.equal(await countRehearsals({ hasOwner: false }, {}), 0)
    assert.equal(await countRehearsals({}), 0)
  })

  test('keeps nothing of the rehearsal: no process, no log', async () => {
    const { processes, log, init } = await openAgent()
    await init({ hasOwner: false, defaultUser: 'root', defaultWorkdir: '/' })
    const rehearsal = processes.rehearse()
    const listed = processes.table.running()
    await rehearsal
    assert.deepEqual(listed, [])
    assert.equal(log.readAfter(0, 1_000_000), undefined)
  })

  test('goes without a rehearsal where there is no such user', async () => {
    const { processes, init } = await openAgent()
    await init({ hasOwner: false, defaultUser: 'nobody-of-this-name' })
    await processes.rehearse()
  })
})
