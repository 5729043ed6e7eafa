/**
 * The promises of every driver, as tests. Each implementation runs them, and no test knows which one it runs on.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Driver, DriverHandle, SandboxSpec } from '../core/ports/driver.ts'
import { type AddressRules, openRules } from '../core/ports/egress.ts'
import { isAppError } from '../lib/app-error.ts'
import { delay } from '../lib/clock.ts'
import { newUUID } from '../lib/ids.ts'
import { leavingNothing, listed, newSpec } from './driver-fixture.ts'
import { type FailureBench, failureTests } from './failure-suite.ts'

export function driverSuite(name: string, open: () => Promise<FailureBench>): void {
  describe(`${name} as a driver`, () => {
    let bench: FailureBench
    before(async () => {
      bench = await open()
      await bench.driver.prepare(bench.rootFolder)
    })
    after(() => bench?.close())

    const spec = (changes: Partial<SandboxSpec> = {}) => newSpec(bench, changes)
    const find = async (driver: Driver, sandboxID: string) =>
      (await listed(driver)).find((found) => found.sandboxID === sandboxID)

    it('reports that it can run on this machine', async () => {
      const result = await bench.driver.probe()
      assert.equal(result.usable, true, JSON.stringify(result))
    })

    it('can prepare a root a second time', async () => {
      await bench.driver.prepare(bench.rootFolder)
    })

    it('starts a sandbox that runs, is listed with its run, and has an endpoint', async () => {
      const wanted = spec()
      const handle = await bench.driver.start(wanted)
      assert.equal(handle.driver, bench.driver.name)
      assert.equal(await bench.driver.recover(handle), 'running')
      assert.deepEqual(await find(bench.driver, wanted.sandboxID), {
        sandboxID: wanted.sandboxID,
        runID: wanted.runID,
        handle,
        roots: [wanted.rootFolder],
        disposable: false,
      })
      assert.equal(bench.driver.endpoint(handle, 8080).port, 8080)
      await bench.driver.stop(handle)
    })

    it('lists a sandbox as disposable until it is adopted, and can adopt it twice', async () => {
      const spec = newSpec(bench, { disposable: true })
      const handle = await bench.driver.start(spec)
      const isDisposable = async () =>
        (await listed(bench.driver)).find(({ sandboxID }) => sandboxID === spec.sandboxID)?.disposable
      assert.equal(await isDisposable(), true)
      await bench.driver.adopt(handle)
      await bench.driver.adopt(handle)
      assert.equal(await isDisposable(), false)
      assert.equal(await bench.driver.recover(handle), 'running')
      await bench.driver.stop(handle)
    })

    it('gives handles that are plain JSON', async () => {
      const handle = await bench.driver.start(spec())
      const stored = JSON.parse(JSON.stringify(handle)) as DriverHandle
      assert.deepEqual(stored, handle)
      assert.equal(await bench.driver.recover(stored), 'running')
      await bench.driver.stop(stored)
      assert.equal(await bench.driver.recover(handle), 'gone')
    })

    it('leaves nothing behind when a sandbox with egress rules is stopped', async () => {
      await leavingNothing(bench, async () => {
        const some: AddressRules = { allow: ['192.0.2.0/24'], deny: ['0.0.0.0/0'], toGate: 'all' }
        for (const egress of [openRules, some])
          await bench.driver.stop(await bench.driver.start(spec({ egress })))
      })
    })

    it('treats the stop of a sandbox that is gone as success', async () => {
      const handle = await bench.driver.start(spec())
      await bench.driver.stop(handle)
      await bench.driver.stop(handle)
      assert.equal(await bench.driver.recover(handle), 'gone')
    })

    it('lets two stops of one sandbox run at once', async () => {
      await leavingNothing(bench, async () => {
        const handle = await bench.driver.start(spec())
        await Promise.all([bench.driver.stop(handle), bench.driver.stop(handle)])
      })
    })

    it('says once that an address becomes free, and not if the sandbox was gone already', async () => {
      const { driver } = bench
      const freed: unknown[] = []
      const stopListening = driver.onAddressFree((one) => freed.push(one))
      const wanted = spec()
      const handle = await driver.start(wanted)
      assert.deepEqual(freed, [])
      await Promise.all([driver.stop(handle), driver.stop(handle)])
      await driver.stop(handle)
      assert.deepEqual(freed, [{ sandboxID: wanted.sandboxID, handle }])
      stopListening()
      await driver.stop(await driver.start(spec()))
      assert.equal(freed.length, 1)
    })

    it('rejects a second sandbox with the same id and leaves the first alone', async () => {
      const first = spec()
      const handle = await bench.driver.start(first)
      await assert.rejects(bench.driver.start({ ...first, runID: newUUID() }), (error) =>
        isAppError(error, 'already_exists'),
      )
      assert.equal(await bench.driver.recover(handle), 'running')
      await bench.driver.stop(handle)
    })

    it('does not end a later run with the handle of an earlier one', async () => {
      const first = spec()
      const earlier = await bench.driver.start(first)
      await bench.driver.stop(earlier)
      const later = await bench.driver.start({ ...first, runID: newUUID() })
      await bench.driver.stop(earlier)
      assert.equal(await bench.driver.recover(earlier), 'gone')
      assert.equal(await bench.driver.recover(later), 'running')
      await bench.driver.stop(later)
    })

    it('lets another driver recover, list, measure and stop a sandbox that this one started', async () => {
      await leavingNothing(bench, async () => {
        const wanted = spec()
        const handle = await bench.driver.start(wanted)
        const other = bench.another()
        assert.equal(await other.recover(handle), 'running')
        assert.deepEqual((await find(other, wanted.sandboxID))?.handle, handle)
        assert.deepEqual(other.endpoint(handle, 80), bench.driver.endpoint(handle, 80))
        assert.equal((await other.stats(handle)).memoryTotalBytes, wanted.memoryMB * 1024 * 1024)
        await other.stop(handle)
        assert.equal(await bench.driver.recover(handle), 'gone')
        await other.close()
      })
    })

    it('gives each of the sandboxes that start at the same time its own endpoint', async () => {
      await leavingNothing(bench, async () => {
        const handles = await Promise.all(Array.from({ length: 5 }, () => bench.driver.start(spec())))
        const hosts = new Set(handles.map((handle) => bench.driver.endpoint(handle, 80).host))
        assert.equal(hosts.size, 5)
        await Promise.all(handles.map((handle) => bench.driver.stop(handle)))
      })
    })

    it('rejects a start that fails and leaves nothing behind', async () => {
      await leavingNothing(bench, async () => {
        const broken = spec({ rootFolder: bench.brokenRootFolder })
        await assert.rejects(bench.driver.start(broken), (error) => isAppError(error))
        assert.equal(await find(bench.driver, broken.sandboxID), undefined)
      })
    })

    it('rejects a start that was aborted at any moment and leaves nothing behind', async () => {
      await leavingNothing(bench, async () => {
        for (const afterMs of [0, 3, 8, 15, 30, 60, 120]) {
          const abort = new AbortController()
          const reason = new Error('not wanted any more')
          const wanted = spec()
          const started = bench.driver.start(wanted, abort.signal).then(
            (handle) => bench.driver.stop(handle),
            (error) => assert.equal(error, reason),
          )
          await delay(afterMs)
          abort.abort(reason)
          await started
          assert.equal(await find(bench.driver, wanted.sandboxID), undefined)
        }
      })
    })

    it('does not begin a start whose signal has already aborted', async () => {
      const wanted = spec()
      await assert.rejects(bench.driver.start(wanted, AbortSignal.abort()), { name: 'AbortError' })
      assert.equal(await find(bench.driver, wanted.sandboxID), undefined)
    })

    it('measures a running sandbox against its own sizes', async () => {
      const wanted = spec()
      const handle = await bench.driver.start(wanted)
      const stats = await bench.driver.stats(handle)
      assert.equal(stats.memoryTotalBytes, wanted.memoryMB * 1024 * 1024)
      assert.ok(stats.memoryUsedBytes > 0 && stats.memoryUsedBytes < stats.memoryTotalBytes)
      assert.ok(stats.cpuTimeMs > 0)
      const diskBytes = wanted.diskMB * 1024 * 1024
      assert.ok(
        stats.diskTotalBytes > diskBytes * 0.8 && stats.diskTotalBytes <= diskBytes,
        `${stats.diskTotalBytes}`,
      )
      assert.ok(stats.diskUsedBytes < diskBytes / 2)
      await bench.driver.stop(handle)
      await assert.rejects(bench.driver.stats(handle), (error) => isAppError(error, 'not_found'))
    })

    it('rejects with the reason of a signal that has already aborted, and does nothing', async () => {
      const handle = await bench.driver.start(spec())
      const signal = AbortSignal.abort()
      for (const verb of ['recover', 'stats', 'stop'] as const)
        await assert.rejects(bench.driver[verb](handle, signal), { name: 'AbortError' })
      assert.equal(await bench.driver.recover(handle), 'running')
      await bench.driver.stop(handle)
    })

    failureTests({ bench: () => bench, spec, find })
  })
}
