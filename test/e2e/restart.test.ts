/** One Warren whose port stays open while it restarts, as systemd keeps it. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Sandbox } from 'e2b'
import { eventually } from '../support/eventually.ts'
import { spawnBound } from '../support/spawn-bound.ts'
import {
  anyIsolation,
  noWarmPool,
  portOf,
  repoFolder,
  seat,
  startWarren,
  type Warren,
} from '../support/warren.ts'

const keeperProgram = join(repoFolder, 'test/support/socket-keeper.py')
const folder = mkdtempSync(join(tmpdir(), 'warren-port-'))
const port = portOf(anyIsolation, seat)
let keeper: ReturnType<typeof spawnBound>
let warren: Warren

before(async () => {
  const path = join(folder, 'keeper')
  const args = [keeperProgram, 'keep', '127.0.0.1', String(port), path]
  keeper = spawnBound('python3', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(keeper.stdout!, 'data')
  const launcher = join(folder, 'warren')
  const command = `exec python3 ${keeperProgram} start ${path} ${join(repoFolder, 'bin/warren')} "$@"`
  writeFileSync(launcher, `#!/bin/sh\n${command}\n`)
  chmodSync(launcher, 0o755)
  warren = await start(false)
})
after(async () => {
  await warren?.stop()
  keeper?.kill()
  rmSync(folder, { recursive: true, force: true })
})

const start = (keep: boolean) =>
  startWarren(anyIsolation, {
    keep,
    name: 'restarting',
    program: join(folder, 'warren'),
    settings: noWarmPool,
  })

test('clients that go on while Warren restarts see slow requests and no error', async () => {
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
  const clients = [0, 1, 2].map(load)
  await eventually(async () => assert.ok(count > 12))
  for (let restarts = 0; restarts < 2; restarts++) {
    assert.equal(await warren.stop(), 0)
    warren = await start(true)
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
  assert.deepEqual(new Set(holders), new Set([String(warren.pid), String(keeper.pid)]))
  await sandbox.kill()
})

function has(pid: string, socket: string): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`) === socket)
  } catch {
    // It has ended, or the descriptor was closed.
    return false
  }
}
