import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventually } from '../../../../test/support/eventually.ts'
import { isAppError } from '../../../lib/app-error.ts'
import type { OciContext } from '../../oci/context/context.ts'
import { takeSnapshot } from '../../oci/snapshot/take-snapshot.ts'
import { Disks } from '../disk/disks.ts'
import { NamespaceThread } from '../namespace/namespace-thread.ts'
import { parseSubnet } from '../network/addresses.ts'
import { createLayout, instanceOf } from '../record/layout.ts'
import type { SandboxRecord } from '../record/records.ts'
import { SlotPool } from './slots.ts'

/** Opens a pool whose addresses are all in use, so that each try to make a slot fails visibly. */
async function openFullPool() {
  const folder = join(tmpdir(), 'warren-slots-of-nobody')
  const layout = createLayout(folder, instanceOf(folder))
  const subnet = parseSubnet('10.213.0.0/28')
  const logged: string[] = []
  const namespaces = new NamespaceThread()
  const pool = new SlotPool({
    layout,
    subnet,
    users: undefined,
    size: 0,
    diskMB: 128,
    namespaces,
    disks: new Disks(layout, 0, namespaces),
    forgetFlows: async () => {},
    log: (message) => void logged.push(message),
  })
  await pool.open(Array(subnet.capacity).keys())
  return { pool, logged }
}

test('a full subnet causes an error that may pass, with what an operator can do', async () => {
  const { pool, logged } = await openFullPool()
  await assert.rejects(pool.acquire(128), (error) => {
    assert.ok(isAppError(error, 'unavailable'))
    assert.equal(error.slug, 'sandbox_capacity_unavailable')
    assert.match(error.message, /^All 3 addresses of 10\.213\.0\.0\/28 are in use; choose a larger subnet/)
    return true
  })
  assert.equal(logged.length, 1)
})

test('slots for announced starts are made before these starts come, and not after', async () => {
  const { pool, logged } = await openFullPool()
  await pool.expecting(2, 128, () => eventually(() => assert.equal(logged.length, 1)))
  pool.refill()
  await pool.close(undefined)
  assert.equal(logged.length, 1)
})

test('slots of starts that are announced, and whose snapshot fails, are not expected any longer', async () => {
  const { pool, logged } = await openFullPool()
  const layout = { sandbox: () => '/nowhere' }
  const record = { sandboxID: 'one', diskMB: 128, runtimeBinary: '/nowhere/runsc' }
  const options = { memory: true, afterwards: 'go-on', lasting: false, startsAfter: 2 } as const
  const acquired = takeSnapshot(
    { slots: pool, layout } as unknown as OciContext,
    record as SandboxRecord,
    '/nowhere/snapshot',
    options,
  )
  await assert.rejects(acquired, /ENOENT/)
  await eventually(() => assert.equal(logged.length, 1))
  pool.refill()
  await pool.close(undefined)
  assert.equal(logged.length, 1)
})
