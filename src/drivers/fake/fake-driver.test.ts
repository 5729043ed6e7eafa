import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { DriverHandle } from '../../core/ports/driver.ts'
import { closedToAll } from '../../core/ports/egress.ts'
import { AppError, isAppError } from '../../lib/app-error.ts'
import { listed, newSpec, noAgent } from '../driver-fixture.ts'
import { driverSuite } from '../driver-suite.ts'
import { snapshotDriverSuite } from '../snapshot-suite.ts'
import { FakeDriver } from './fake-driver.ts'

const bench = { rootFolder: '/a-root', agent: noAgent }

driverSuite('the fake', async () => {
  const driver = new FakeDriver()
  return {
    driver,
    another: () => new FakeDriver({ world: driver.world }),
    ...bench,
    brokenRootFolder: '/never-prepared',
    traces: async () => [...driver.world.sandboxes.keys()],
    settled: async () => {},
    killProcesses: async ({ data }) => driver.crash(String(data.sandboxID), { reason: 'killed' }),
    makeUnreadable: async (sandboxID) => {
      driver.world.unreadable.add(sandboxID)
      return async () => void driver.world.unreadable.delete(sandboxID)
    },
    breakEgress: async () => {
      // At this point the new rules are recorded, and the fake kernel still enforces the old ones.
      driver.beforeEnforced = () => Promise.reject(new AppError('unavailable', 'It failed. Try again.'))
      return async () => {
        driver.beforeEnforced = async () => {}
      }
    },
    isClosed: async ({ data }) =>
      driver.world.sandboxes.get(String(data.sandboxID))!.enforced.deny.includes(closedToAll),
    close: () => driver.close(),
  }
})

for (const snapshotMemory of [true, false]) {
  snapshotDriverSuite(`the fake ${snapshotMemory ? 'with' : 'without'} memory`, async () => {
    const driver = new FakeDriver({ snapshotMemory })
    const content = (handle: DriverHandle) => driver.world.sandboxes.get(String(handle.data.sandboxID))!
    return {
      driver,
      another: () => new FakeDriver({ snapshotMemory, world: driver.world }),
      ...bench,
      brokenRootFolder: '/never-prepared',
      traces: async () => [...driver.world.sandboxes.keys()],
      settled: async () => {},
      close: () => driver.close(),
      snapshotFolder: (name) => `/saved/${name}`,
      remember: async (handle, memory, file) => {
        content(handle).memory.set('text', memory)
        content(handle).files.set('text', file)
      },
      recall: async (handle) => ({
        memory: content(handle).memory.get('text'),
        file: content(handle).files.get('text'),
      }),
    }
  })
}

describe("the fake's knobs", () => {
  async function running() {
    const driver = new FakeDriver({ endpoint: { host: '127.0.0.1', port: 4711 } })
    await driver.prepare('/a-root')
    const spec = newSpec(bench)
    return { driver, spec, handle: await driver.start(spec) }
  }

  it('crash a sandbox: it is gone, but still listed', async () => {
    const { driver, spec, handle } = await running()
    driver.crash(spec.sandboxID)
    assert.equal(await driver.recover(handle), 'gone')
    assert.equal((await driver.list()).length, 1)
  })

  it('reboot the machine: no sandbox is left', async () => {
    const { driver, handle } = await running()
    driver.loseEverything()
    assert.equal(await driver.recover(handle), 'gone')
    assert.deepEqual(await driver.list(), [])
  })

  it('fail a start, which leaves nothing behind', async () => {
    const { driver } = await running()
    driver.beforeStarted = async () => {
      throw new Error('no room')
    }
    const spec = newSpec(bench)
    await assert.rejects(driver.start(spec), /no room/)
    assert.equal(
      (await driver.list()).some((found) => found.sandboxID === spec.sandboxID),
      false,
    )
  })

  it('hold a start: the sandbox is listed but does not run', async () => {
    const { driver } = await running()
    let release = () => {}
    driver.beforeStarted = () => new Promise((resolve) => (release = resolve))
    const spec = newSpec(bench)
    const started = driver.start(spec)
    const found = (await listed(driver)).find((each) => each.sandboxID === spec.sandboxID)
    assert.equal(await driver.recover(found!.handle), 'gone')
    release()
    assert.equal(await driver.recover(await started), 'running')
  })

  it('hold a snapshot and let it fail: the sandbox is as it was', async () => {
    const { driver, handle } = await running()
    driver.beforeSnapshot = async () => {
      assert.equal(await driver.recover(handle), 'frozen')
      throw new Error('disk full')
    }
    const options = { memory: true, afterwards: 'end', lasting: true } as const
    await assert.rejects(driver.takeSnapshot(handle, '/saved/a', options), /disk full/)
    assert.equal(await driver.recover(handle), 'running')
    assert.equal(await driver.findSnapshot('/saved/a'), undefined)
  })

  it('hold the end of a sandbox: it is gone but listed, and its snapshot exists', async () => {
    const { driver, handle } = await running()
    driver.beforeRemoved = async () => {
      assert.equal(await driver.recover(handle), 'gone')
      assert.equal((await driver.list()).length, 1)
      assert.equal((await driver.findSnapshot('/saved/a'))?.memory, true)
    }
    await driver.takeSnapshot(handle, '/saved/a', { memory: true, afterwards: 'end', lasting: true })
    assert.deepEqual(await driver.list(), [])
  })

  it('point every port at the given endpoint', async () => {
    const { driver, handle } = await running()
    assert.deepEqual(driver.endpoint(handle, 80), { host: '127.0.0.1', port: 4711 })
  })

  it('bring back a fault: the driver assumes that recorded rules are enforced', async () => {
    const { driver, spec, handle } = await running()
    const closed = { allow: [], deny: ['0.0.0.0/0'], toGate: 'none' } as const
    driver.trustsRecord = true
    driver.beforeEnforced = async () => {
      throw new Error('nft failed')
    }
    await assert.rejects(driver.limitEgress(handle, closed), /nft failed/)
    await driver.limitEgress(handle, closed)
    assert.deepEqual(driver.world.sandboxes.get(spec.sandboxID)?.enforced, spec.egress)
  })

  it('do not change that the next sandbox gets the address of one that is gone', async () => {
    const { driver, handle } = await running()
    await driver.stop(handle)
    assert.equal((await driver.start(newSpec(bench))).data.address, handle.data.address)
  })

  it('do not change that a sandbox which is gone cannot be measured', async () => {
    const { driver, handle } = await running()
    await driver.stop(handle)
    await assert.rejects(driver.stats(handle), (error) => isAppError(error, 'not_found'))
  })
})
