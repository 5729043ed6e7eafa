/** A Warren over a real S3 server, whose answers the test holds back: sandboxes run while their memory still arrives. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, suite, test } from 'node:test'
import { Sandbox } from 'e2b'
import { dataPaths } from '../../src/app/data/data-folder.ts'
import { eventually } from '../support/eventually.ts'
import { startObjectStore, type TestObjectStore } from '../support/object-store.ts'
import { openStoreGate, type StoreGate } from '../support/store-gate.ts'
import { noWarmPool, startWarren, type Warren } from '../support/warren.ts'

/** Random bytes in the sandbox's memory; they would take half a minute at the speed of the store during the resume. */
const memoryBytes = 350_000_000
const slowBytesPerSecond = 12_000_000

let objects: TestObjectStore
let gate: StoreGate
let warren: Warren

const start = (keepData: boolean) =>
  startWarren('gvisor', {
    name: 'arrival',
    portOffset: 61,
    keepData,
    settings: {
      ...noWarmPool,
      ...objects.env,
      WARREN_OBJECT_STORE_ENDPOINT: gate.endpoint,
      WARREN_EARLY_RESUMES: 'yes',
    },
  })

before(async () => {
  objects = await startObjectStore()
  gate = await openStoreGate(objects.endpoint)
  warren = await start(false)
})
after(async () => {
  gate?.release()
  await warren?.stop()
  await gate?.close()
  await objects?.close()
})

type Row = { state: string; saved: string | null; stored_at: number | null }

function readRow({ sandboxId }: Sandbox): Row {
  using database = new DatabaseSync(join(warren.dataFolder, 'warren.db'), { readOnly: true })
  return database
    .prepare('select state, saved, stored_at from sandboxes where id = ?')
    .get(sandboxId) as never as Row
}

const memoryHash = async (sandbox: Sandbox) =>
  (await sandbox.commands.run('sha256sum /dev/shm/held', { timeoutMs: 120_000 })).stdout

/** Snapshots and processes of loads of this Warren. */
const copies = (sandbox: Sandbox) =>
  readdirSync(dataPaths(warren.dataFolder).snapshots).filter((name) => name.startsWith(sandbox.sandboxId))
const servers = () =>
  readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      return args.includes('page-server') && args.includes(warren.dataFolder)
    } catch {
      return false
    }
  })

async function pauseStored(sandbox: Sandbox): Promise<void> {
  await sandbox.pause()
  await eventually(async () => assert.ok(readRow(sandbox).stored_at !== null))
  // As on a machine that never had it.
  for (const name of copies(sandbox))
    rmSync(join(dataPaths(warren.dataFolder).snapshots, name), { recursive: true })
}

/** A sandbox that runs while the greater part of its memory is held back. */
async function halfArrived(): Promise<{ sandbox: Sandbox; hash: string }> {
  gate.release()
  const sandbox = await Sandbox.create({ ...warren.client, timeoutMs: 3_600_000 })
  await sandbox.commands.run(`head -c ${memoryBytes} /dev/urandom > /dev/shm/held; echo before > mark`)
  const hash = await memoryHash(sandbox)
  await pauseStored(sandbox)
  gate.slow(slowBytesPerSecond)
  await sandbox.connect()
  assert.equal((await sandbox.commands.run('cat mark; echo while it arrives > mark')).stdout, 'before\n')
  gate.block()
  await eventually(async () => assert.ok(gate.isBlocking()))
  assert.match(readRow(sandbox).saved ?? '', /arrivesFrom/)
  assert.equal(servers().length, 1)
  return { sandbox, hash }
}

async function untilArrived(sandbox: Sandbox): Promise<void> {
  await eventually(async () => {
    assert.equal(readRow(sandbox).saved, null)
    assert.deepEqual([servers(), copies(sandbox)], [[], []])
  })
}

suite('a sandbox whose memory arrives from the object store', () => {
  test('runs commands before all memory is there, and has every byte in the end', async () => {
    const { sandbox, hash } = await halfArrived()
    gate.release()
    assert.equal(await memoryHash(sandbox), hash)
    await untilArrived(sandbox)
    assert.equal((await sandbox.commands.run('cat mark')).stdout, 'while it arrives\n')
    await sandbox.kill()
  })

  test('a pause waits until all memory is there', async () => {
    const { sandbox, hash } = await halfArrived()
    let isPaused = false
    const pause = sandbox.pause().then(() => {
      isPaused = true
    })
    await eventually(async () => assert.ok(gate.isBlocking()))
    assert.deepEqual([isPaused, readRow(sandbox).state], [false, 'running'])
    gate.release()
    await pause
    await sandbox.connect()
    assert.equal(await memoryHash(sandbox), hash)
    await sandbox.kill()
  })

  test('survives the death of Warren, and gets the rest from the next one', async () => {
    const { sandbox, hash } = await halfArrived()
    const [server] = servers()
    await warren.crash()
    // A start of Warren asks the object store for the base.
    gate.release()
    assert.deepEqual(servers(), [server])
    warren = await start(true)
    const same = await Sandbox.connect(sandbox.sandboxId, warren.client)
    assert.equal(await memoryHash(same), hash)
    await untilArrived(same)
    await same.kill()
  })

  test('stands still while the store is away, and goes on when it is back', async () => {
    const { sandbox, hash } = await halfArrived()
    await objects.stop()
    const rest = memoryHash(sandbox)
    rest.catch(() => {})
    await objects.start()
    gate.release()
    assert.equal(await rest, hash)
    await untilArrived(sandbox)
    await sandbox.kill()
  })

  test('goes back to its stored snapshot if it dies meanwhile', async () => {
    const { sandbox, hash } = await halfArrived()
    const pid = Number(readFileSync(join(warren.dataFolder, 'sandboxes', sandbox.sandboxId, 'pid'), 'utf8'))
    process.kill(pid, 'SIGKILL')
    await eventually(async () => {
      const { state, stored_at } = readRow(sandbox)
      assert.deepEqual([state, stored_at !== null, servers()], ['paused', true, []])
    })
    gate.release()
    const again = await Sandbox.connect(sandbox.sandboxId, warren.client)
    assert.equal(await memoryHash(again), hash)
    assert.equal((await again.commands.run('cat mark')).stdout, 'before\n')
    await again.kill()
  })

  test('a kill leaves nothing behind', async () => {
    const { sandbox } = await halfArrived()
    await sandbox.kill()
    await eventually(async () => {
      assert.equal(readRow(sandbox).state, 'ended')
      assert.deepEqual([servers(), copies(sandbox)], [[], []])
      assert.ok(!existsSync(join(warren.dataFolder, 'sandboxes', sandbox.sandboxId)))
    })
  })
})
