/**
 * A sandbox is resumed on a machine that does not have it, from an S3 server behind a proxy that lies about its pack. It stays
 * paused, gets nothing of another team, and is whole when the store is honest again.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { dataPaths } from '../../src/app/data/data-folder.ts'
import { countOf } from '../support/count-of.ts'
import { eventually } from '../support/eventually.ts'
import { type Lie, type LyingStore, openLyingStore } from '../support/lying-store.ts'
import { startObjectStore, type TestObjectStore } from '../support/object-store.ts'
import { noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const lies: Lie[] = [
  'absent',
  'cut off',
  'too short',
  'changed',
  'moved',
  'without end',
  'of another sandbox',
]
/** The server gives up after two minutes. */
const slowLies: Lie[] = countOf({ short: 0, long: 1 }) > 0 ? ['never there'] : []
const memoryBytes = 48_000_000
const secret = 'only-the-other-team-knows-this'

type Row = { state: string; saved: string | null; stored_at: number | null; run_id: string }

describe('an object store that lies', () => {
  let objects: TestObjectStore
  let store: LyingStore
  let warren: Warren
  let sandbox: Sandbox
  let hash: string
  let otherKey: string

  before(async () => {
    objects = await startObjectStore()
    store = await openLyingStore(objects.endpoint, objects.folder, () => otherKey)
    warren = await startWarren('gvisor', {
      name: 'lies',
      settings: {
        ...noWarmPool,
        ...objects.env,
        WARREN_OBJECT_STORE_ENDPOINT: store.endpoint,
        WARREN_EARLY_RESUMES: 'yes',
      },
    })
    const operator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
    await warren.api('/admin/teams', { ...operator, body: { name: 'other' } })
    const keyed = await warren.api('/admin/teams/other/api-keys', { ...operator, body: { name: 'k' } })
    const { key } = (await keyed.json()) as { key: string }
    const other = await Sandbox.create('base', { ...warren.client, apiKey: key, timeoutMs: 3_600_000 })
    await other.commands.run(`echo ${secret} > secret; echo ${secret} > /dev/shm/secret`)
    await pauseStored(other)
    otherKey = keyOf(other)
    sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
    await sandbox.commands.run(`head -c ${memoryBytes} /dev/urandom > /dev/shm/held; echo before > mark`)
    hash = await memoryHash()
    await pauseStored(sandbox)
  })
  after(async () => {
    store?.becomeHonest()
    await warren?.stop()
    await store?.close()
    await objects?.close()
  })

  function readRow({ sandboxId }: Sandbox): Row {
    using database = new DatabaseSync(join(warren.dataFolder, 'warren.db'), { readOnly: true })
    return database
      .prepare('select state, saved, stored_at, run_id from sandboxes where id = ?')
      .get(sandboxId) as never as Row
  }
  const keyOf = (one: Sandbox) => `tests/sandboxes/${one.sandboxId}/${readRow(one).run_id}`
  const memoryHash = async () =>
    (await sandbox.commands.run('sha256sum /dev/shm/held', { timeoutMs: 240_000 })).stdout
  const copies = (one: Sandbox) =>
    readdirSync(dataPaths(warren.dataFolder).snapshots).filter((name) => name.startsWith(one.sandboxId))

  async function pauseStored(one: Sandbox): Promise<void> {
    await one.pause()
    await eventually(() => assert.ok(readRow(one).stored_at !== null))
    forget(one)
  }
  /** As on a machine that never had it. */
  function forget(one: Sandbox): void {
    for (const name of copies(one))
      rmSync(join(dataPaths(warren.dataFolder).snapshots, name), { recursive: true })
  }

  async function resume(): Promise<{ status: number; text: string }> {
    const answer = await warren.api(`/sandboxes/${sandbox.sandboxId}/connect`, { body: { timeout: 3600 } })
    return { status: answer.status, text: await answer.text() }
  }

  for (const what of [...lies, ...slowLies]) {
    it(`whose pack is ${what} leaves the sandbox paused, and brings nothing`, async (t) => {
      store.lie(what, sandbox.sandboxId)
      const { status, text } = await resume()
      t.diagnostic(`${status}: ${text}`)
      assert.ok(store.lies() > 0)
      assert.ok(status >= 400, text)
      assert.match(text, /object store|snapshot/i)
      assert.ok(!text.includes(secret))
      await eventually(() => assert.equal(readRow(sandbox).state, 'paused'))
      assert.ok(!existsSync(join(warren.dataFolder, 'sandboxes', sandbox.sandboxId)))
      assert.deepEqual(copies(sandbox), [])
      store.becomeHonest()
    })
  }

  it('gives the sandbox back whole when it is honest, whatever it says while the memory arrives', async (t) => {
    // The index, the disk and the memory that the start needs arrive before the answer.
    store.lie('late', sandbox.sandboxId)
    const { status, text } = await resume()
    assert.ok(status < 300, text)
    let message: Promise<string> | undefined
    for (const what of ['changed', 'absent', 'of another sandbox', 'without end'] as const) {
      assert.match(readRow(sandbox).saved ?? '', /arrivesFrom/, what)
      store.lie(what, sandbox.sandboxId)
      message ??= memoryHash()
      message.catch(() => {})
      await eventually(() => assert.ok(store.lies() > 0))
      t.diagnostic(`${what}: ${store.lies()} answers`)
    }
    store.becomeHonest()
    assert.equal(await message, hash)
    assert.equal((await sandbox.commands.run('cat mark')).stdout, 'before\n')
    assert.equal(
      (await sandbox.commands.run(`grep -rc ${secret} /dev/shm /home || true`)).stdout.includes(':1'),
      false,
    )
    await eventually(() => assert.equal(readRow(sandbox).saved, null))
    assert.deepEqual(copies(sandbox), [])
  })

  it('put nothing of the other team into the files of this one', async () => {
    await sandbox.kill()
    const log = readFileSync(warren.logFile, 'utf8')
    assert.ok(!log.includes(secret))
  })
})
