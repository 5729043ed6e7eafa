import assert from 'node:assert/strict'
import test from 'node:test'
import { gate } from '../../../test/support/domain.ts'
import { ManualClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import type { Snapshot } from '../ports/driver.ts'
import type { ObjectKey } from '../ports/object-store.ts'
import { RemoteSnapshots, type RemoteSnapshotsParts } from './remote-snapshots.ts'

const key = 'templates/t' as ObjectKey
const wanted = { memory: true }

/** Snapshots whose fetch waits until the test opens the gate, or until its signal aborts. */
function openSnapshots() {
  const opened = gate()
  const fetches: string[] = []
  const fetch = async (_target: unknown, signal: AbortSignal) => {
    fetches.push('begins')
    await Promise.race([
      opened.opened,
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    ]).finally(() => fetches.push(signal.aborted ? 'ends by its signal' : 'ends'))
  }
  const parts = {
    driver: {
      capabilities: { exportSnapshots: true },
      async importSnapshot(_folder: string, { memory }: { memory: boolean }, run: (of: object) => unknown) {
        return (await run(async () => ({ open: () => undefined }))) ? { memory } : undefined
      },
    },
    snapshots: {
      find: async () => undefined,
      folder: (name: string) => name,
      remove: async () => {},
      protecting: (_name: string, work: () => Promise<unknown>) => work(),
    },
    packs: { open: async () => ({ note: {}, fetch }) },
    clock: new ManualClock(),
    log: silentLog,
  }
  const snapshots = new RemoteSnapshots(parts as unknown as RemoteSnapshotsParts)
  const start = () => {
    const abort = new AbortController()
    const fetched: Promise<Snapshot | undefined> = snapshots.fetch('name', key, wanted, abort.signal, {
      serves: () => true,
      index: async () => undefined,
    })
    // A test awaits it later than it may fail.
    fetched.catch(() => {})
    return { fetched, abort }
  }
  return { start, fetches, open: opened.open }
}

const soon = () => new Promise((resolve) => setImmediate(resolve))

test('a shared fetch goes on for the others when its first caller gives up', async () => {
  const { start, fetches, open } = openSnapshots()
  const [first, second] = [start(), start()]
  await soon()
  first.abort.abort(new Error('the client went away'))
  await assert.rejects(first.fetched, /the client went away/)
  const third = start()
  await soon()
  open()
  assert.deepEqual(await second.fetched, { memory: true })
  assert.deepEqual(await third.fetched, { memory: true })
  assert.deepEqual(fetches, ['begins', 'ends'])
})

test('a shared fetch ends when its last caller gives up, and the next call begins another', async () => {
  const { start, fetches, open } = openSnapshots()
  const [first, second] = [start(), start()]
  await soon()
  first.abort.abort(new Error('the client went away'))
  second.abort.abort(new Error('the sandbox was killed'))
  const third = start()
  await assert.rejects(first.fetched, /the client went away/)
  await assert.rejects(second.fetched, /the sandbox was killed/)
  await soon()
  open()
  assert.deepEqual(await third.fetched, { memory: true })
  assert.deepEqual(fetches, ['begins', 'ends by its signal', 'begins', 'ends'])
})

test('memory that arrives comes from the pack that the row names, also after a restart', async () => {
  const filled: string[] = []
  const pack = { note: {}, checksum: 'of another sandbox', partsOf: () => undefined }
  const parts = {
    driver: {
      capabilities: { fillMemory: true },
      fillMemory: async (folder: string) => void filled.push(folder),
    },
    snapshots: {
      folder: (name: string) => name,
      protecting: (_name: string, work: () => Promise<unknown>) => work(),
    },
    packs: { open: async () => pack },
    clock: new ManualClock(),
    log: silentLog,
  }
  const snapshots = new RemoteSnapshots(parts as unknown as RemoteSnapshotsParts)
  const load = { signal: new AbortController().signal, isStarting: () => false }
  const fill = (index: string | undefined) => snapshots.fill('name', key, async () => index, load)
  await assert.rejects(fill('its own'), /is not the one that was stored there/)
  assert.deepEqual(filled, [])
  // Earlier releases did not record which pack it is.
  for (const index of ['of another sandbox', undefined]) await fill(index)
  assert.equal(filled.length, 2)
})
