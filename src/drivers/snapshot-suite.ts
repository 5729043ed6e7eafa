/** The promises of every driver that can freeze sandboxes and take snapshots, as tests. The suite for all drivers is apart. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { countOf } from '../../test/support/count-of.ts'
import type {
  CanExportSnapshots,
  CanFreeze,
  CanSnapshot,
  Driver,
  DriverHandle,
  PortableSnapshot,
  RestoreSpec,
  SandboxSpec,
  SnapshotOptions,
} from '../core/ports/driver.ts'
import { type ErrorCode, isAppError } from '../lib/app-error.ts'
import { delay } from '../lib/clock.ts'
import { newUUID } from '../lib/ids.ts'
import { runCommand } from '../lib/run-command.ts'
import { type DriverBench, leavingNothing, listed, newSpec } from './driver-fixture.ts'

const forkCount = countOf({ short: 4, long: 10 })

type SnapshotDriver = Driver & CanFreeze & CanSnapshot & CanExportSnapshots

export type SnapshotBench = Omit<DriverBench, 'driver' | 'another'> & {
  driver: SnapshotDriver
  another(): SnapshotDriver
  /** A path at which a snapshot may be taken. */
  snapshotFolder(name: string): string
  /** Puts one text into the memory of a process of the sandbox and another into a file. */
  remember(handle: DriverHandle, memory: string, file: string): Promise<void>
  recall(handle: DriverHandle): Promise<{ memory: string | undefined; file: string | undefined }>
}

export function snapshotDriverSuite(name: string, open: () => Promise<SnapshotBench>): void {
  describe(`${name} as a driver that takes snapshots`, () => {
    let bench: SnapshotBench
    let folder: string
    let count = 0
    before(async () => {
      bench = await open()
      await bench.driver.prepare(bench.rootFolder)
      await bench.settled()
    })
    after(() => bench?.close())
    afterEach(async () => {
      for (const { handle } of await listed(bench.driver)) await bench.driver.stop(handle)
      await bench.driver.removeSnapshot(folder)
    })

    const fails = (code: ErrorCode) => (error: unknown) => isAppError(error, code)
    const keepsMemory = () => bench.driver.capabilities.snapshotMemory
    const restored = () => ({ memory: keepsMemory() ? 'in memory' : undefined, file: 'in a file' })

    async function sandbox(): Promise<DriverHandle> {
      folder = bench.snapshotFolder(`state-${count++}`)
      const handle = await bench.driver.start(newSpec(bench))
      await bench.remember(handle, 'in memory', 'in a file')
      return handle
    }

    const save = (handle: DriverHandle, afterwards: SnapshotOptions['afterwards'], signal?: AbortSignal) =>
      bench.driver.takeSnapshot(handle, folder, { memory: keepsMemory(), afterwards, lasting: false }, signal)

    function startFrom(
      changes: Partial<RestoreSpec> = {},
      spec: Partial<SandboxSpec> = {},
      signal?: AbortSignal,
    ) {
      const fromSnapshot = { folder, memory: true, keepSnapshot: true, ...changes }
      return bench.driver.start(newSpec(bench, { ...spec, fromSnapshot }), signal)
    }

    it('boots with the requested size, and restores memory with the size of the snapshot', async () => {
      const { driver } = bench
      const snapshot = await save(await sandbox(), 'end')
      const asked = { cpuCount: 2, memoryMB: 384, diskMB: 192 }
      const saved = { cpuCount: 1, memoryMB: 256, diskMB: 128 }
      assert.deepEqual(snapshot.size, saved)
      const sizeOf = async (handle: DriverHandle) => {
        const snapshotFolder = `${folder}-size`
        const options = { memory: false, afterwards: 'end', lasting: false } as const
        const { size } = await driver.takeSnapshot(handle, snapshotFolder, options)
        await driver.removeSnapshot(snapshotFolder)
        return size
      }
      const booted = await startFrom({ memory: false }, asked)
      assert.equal((await driver.stats(booted)).memoryTotalBytes, asked.memoryMB * 2 ** 20)
      assert.deepEqual(await sizeOf(booted), asked)
      if (keepsMemory()) assert.deepEqual(await sizeOf(await startFrom({}, asked)), saved)
    })

    it('says that an address becomes free when a snapshot has ended its sandbox', async () => {
      const { driver } = bench
      const freed: DriverHandle[] = []
      const stopListening = driver.onAddressFree(({ handle }) => freed.push(handle))
      const handle = await sandbox()
      await save(handle, 'end')
      await listed(driver)
      assert.deepEqual(freed, [handle])
      stopListening()
    })

    it('imports the memory and files of an exported snapshot, and reports that another machine took it', async () => {
      const { driver } = bench
      await save(await sandbox(), 'end')
      const portable = await driver.exportSnapshot(folder)
      const copy = `${folder}-copy`
      const imported = await driver.importSnapshot(copy, { memory: true }, carry(portable))
      assert.deepEqual([imported?.memory, imported?.imported], [keepsMemory(), true])
      assert.equal((await driver.findSnapshot(folder))?.imported, undefined)
      await driver.removeSnapshot(folder)
      const handle = await startFrom({ folder: copy, memory: keepsMemory(), keepSnapshot: false })
      assert.deepEqual(await bench.recall(handle), restored())
      await driver.stop(handle)
      await driver.removeSnapshot(copy)
    })

    it('imports without memory on request, and says why memory of another machine cannot be restored', async () => {
      const { driver } = bench
      const handle = await sandbox()
      const needsWhileRunning = keepsMemory() ? await driver.memoryNeeds(handle) : null
      await save(handle, 'end')
      const portable = await driver.exportSnapshot(folder)
      assert.equal(portable?.needs === null, !keepsMemory())
      if (portable?.needs) {
        assert.deepEqual(portable.needs, needsWhileRunning)
        assert.equal(await driver.whyUnfit(portable.needs), undefined)
        assert.match((await driver.whyUnfit({ ...portable.needs, cpu: 'another' })) ?? '', /CPU/)
      }
      const copy = `${folder}-copy`
      assert.equal((await driver.importSnapshot(copy, { memory: false }, carry(portable)))?.memory, false)
      await driver.removeSnapshot(copy)
    })

    it('imports nothing if there is no snapshot, and leaves nothing of a failed import', async () => {
      const { driver } = bench
      await save(await sandbox(), 'end')
      const copy = `${folder}-copy`
      assert.equal(await driver.exportSnapshot(copy), undefined)
      assert.equal(await driver.importSnapshot(copy, { memory: true }, carry(undefined)), undefined)
      const cut = { ...(await driver.exportSnapshot(folder))!, isCutOff: true as const }
      await assert.rejects(driver.importSnapshot(copy, { memory: true }, carry(cut)), /cut off/)
      assert.equal(await driver.findSnapshot(copy), undefined)
    })

    it('freezes and thaws a sandbox, and treats a second freeze or thaw as success', async () => {
      const handle = await sandbox()
      for (let round = 0; round < 2; round++) await bench.driver.freeze(handle)
      assert.equal(await bench.driver.recover(handle), 'frozen')
      for (let round = 0; round < 2; round++) await bench.driver.thaw(handle)
      assert.equal(await bench.driver.recover(handle), 'running')
      assert.deepEqual(await bench.recall(handle), { memory: 'in memory', file: 'in a file' })
    })

    it('leaves nothing behind when a frozen sandbox is stopped by another process', async () => {
      await leavingNothing(bench, async () => {
        const handle = await sandbox()
        await bench.driver.freeze(handle)
        const other = bench.another()
        assert.equal(await other.recover(handle), 'frozen')
        await other.stop(handle)
        await other.close()
        assert.equal(await bench.driver.recover(handle), 'gone')
      })
    })

    it('ends a sandbox with a snapshot, leaves nothing else of it, and starts it again', async () => {
      await leavingNothing(bench, async () => {
        const handle = await sandbox()
        await leavingOnly(handle)
        const sandboxID = String(handle.data.sandboxID)
        const again = await startFrom({ keepSnapshot: false }, { sandboxID })
        await bench.driver.removeSnapshot(folder)
        assert.deepEqual(await bench.recall(again), restored())
        await bench.driver.stop(again)
      })
    })

    async function leavingOnly(handle: DriverHandle): Promise<void> {
      const state = await save(handle, 'end')
      assert.deepEqual(await bench.driver.findSnapshot(folder), state)
      assert.equal(state.memory, keepsMemory())
      assert.ok(state.bytes > 0)
      assert.deepEqual(await bench.driver.list(), [])
      assert.equal(await bench.driver.recover(handle), 'gone')
    }

    it(`lets a sandbox go on while ${forkCount} others start from its snapshot`, async () => {
      await leavingNothing(bench, async () => {
        const handle = await sandbox()
        await save(handle, 'go-on')
        assert.equal(await bench.driver.recover(handle), 'running')
        await bench.remember(handle, 'later', 'later')
        const forks = await Promise.all(Array.from({ length: forkCount }, () => startFrom()))
        await bench.driver.removeSnapshot(folder)
        for (const fork of forks) assert.deepEqual(await bench.recall(fork), restored())
        await bench.remember(forks[0]!, 'of a fork', 'of a fork')
        assert.deepEqual(await bench.recall(forks[1]!), restored())
        assert.deepEqual(await bench.recall(handle), { memory: 'later', file: 'later' })
        const hosts = new Set([handle, ...forks].map((each) => bench.driver.endpoint(each, 80).host))
        assert.equal(hosts.size, forkCount + 1)
        await Promise.all([handle, ...forks].map((each) => bench.driver.stop(each)))
      })
    })

    it('boots from the files of a snapshot when memory is not requested', async () => {
      const handle = await sandbox()
      await save(handle, 'end')
      assert.deepEqual(await bench.recall(await startFrom({ memory: false })), {
        memory: undefined,
        file: 'in a file',
      })
    })

    it('takes a snapshot of a sandbox that was itself started from a snapshot', async () => {
      const handle = await sandbox()
      await save(handle, 'end')
      const second = await startFrom()
      await bench.driver.removeSnapshot(folder)
      await save(second, 'end')
      assert.deepEqual(await bench.recall(await startFrom()), restored())
    })

    it('has a snapshot of a frozen sandbox’s files until the sandbox is thawed', async () => {
      const handle = await sandbox()
      await save(handle, 'stay-frozen')
      assert.equal(await bench.driver.recover(handle), 'frozen')
      assert.ok(await bench.driver.findSnapshot(folder))
      await assert.rejects(startFrom(), fails('conflict'))
      await bench.driver.thaw(handle)
      assert.equal(await bench.driver.findSnapshot(folder), undefined)
      assert.deepEqual(await bench.recall(handle), { memory: 'in memory', file: 'in a file' })
    })

    it('starts from the files of a frozen sandbox that is gone', async () => {
      const handle = await sandbox()
      await save(handle, 'stay-frozen')
      await bench.driver.stop(handle)
      const again = await startFrom({ keepSnapshot: false }, { sandboxID: String(handle.data.sandboxID) })
      assert.deepEqual(await bench.recall(again), restored())
    })

    it('leaves a snapshot whole when a start from it is aborted at any moment', async () => {
      const handle = await sandbox()
      await save(handle, 'end')
      await leavingNothing(bench, async () => {
        for (const afterMs of [0, 5, 20, 60]) {
          const abort = new AbortController()
          const started = startFrom({ keepSnapshot: true }, {}, abort.signal).then(
            (fork) => bench.driver.stop(fork),
            (error) => assert.equal(error, abort.signal.reason),
          )
          await delay(afterMs)
          abort.abort(new Error('not wanted any more'))
          await started
        }
        await assert.rejects(startFrom({ keepSnapshot: false }, {}, AbortSignal.abort()), {
          name: 'AbortError',
        })
      })
      assert.deepEqual(await bench.recall(await startFrom({ keepSnapshot: false })), restored())
    })

    it('leaves the sandbox running and nothing else when a snapshot is aborted at any moment', async () => {
      const handle = await sandbox()
      for (const afterMs of [0, 10, 40, 90]) {
        const abort = new AbortController()
        const saved = save(handle, 'go-on', abort.signal).then(
          () => bench.driver.removeSnapshot(folder),
          (error) => assert.equal(error, abort.signal.reason),
        )
        await delay(afterMs)
        abort.abort(new Error('not wanted any more'))
        await saved
        assert.equal(await bench.driver.findSnapshot(folder), undefined)
        assert.equal(await bench.driver.recover(handle), 'running')
      }
      assert.deepEqual(await bench.recall(handle), { memory: 'in memory', file: 'in a file' })
    })

    it('does not start a second sandbox from a snapshot that the first one consumed', async () => {
      const handle = await sandbox()
      await save(handle, 'end')
      await startFrom({ keepSnapshot: false })
      await assert.rejects(startFrom({ keepSnapshot: false }), fails('conflict'))
      await assert.rejects(startFrom({ keepSnapshot: true }), fails('conflict'))
    })

    it('has a consumed snapshot, without its memory, until the snapshot is removed', async () => {
      const handle = await sandbox()
      const snapshot = await save(handle, 'end')
      const first = await startFrom({ keepSnapshot: false })
      // The sandbox writes to the snapshot's disk, so the size of that disk changes.
      const { bytes, ...found } = (await bench.driver.findSnapshot(folder))!
      assert.deepEqual({ ...found, bytes: snapshot.bytes }, { ...snapshot, memory: false, used: true })
      assert.ok(bytes > 0)
      await bench.remember(first, 'later', 'later')
      await bench.driver.stop(first)
      if (keepsMemory()) await assert.rejects(startFrom({ keepSnapshot: false }), fails('conflict'))
      const second = await startFrom({ memory: false, keepSnapshot: false })
      assert.deepEqual(await bench.recall(second), { memory: undefined, file: 'later' })
      await bench.driver.removeSnapshot(folder)
      assert.equal(await bench.driver.findSnapshot(folder), undefined)
      assert.equal((await bench.recall(second)).file, 'later')
    })

    it('rejects with the reason of a signal that has already aborted, and does not thaw', async () => {
      const handle = await sandbox()
      await bench.driver.freeze(handle)
      await assert.rejects(bench.driver.thaw(handle, AbortSignal.abort()), { name: 'AbortError' })
      assert.equal(await bench.driver.recover(handle), 'frozen')
      await bench.driver.thaw(handle)
    })

    it('rejects a snapshot over another one, of a frozen sandbox, and of a sandbox that is gone', async () => {
      const handle = await sandbox()
      await save(handle, 'go-on')
      await assert.rejects(save(handle, 'go-on'), fails('already_exists'))
      assert.ok(await bench.driver.findSnapshot(folder), 'the first snapshot must remain')
      await bench.driver.removeSnapshot(folder)
      await bench.driver.freeze(handle)
      await assert.rejects(save(handle, 'go-on'), fails('conflict'))
      assert.equal(await bench.driver.recover(handle), 'frozen')
      await bench.driver.stop(handle)
      await assert.rejects(save(handle, 'go-on'), fails('not_found'))
      await assert.rejects(bench.driver.thaw(handle), fails('not_found'))
      await assert.rejects(startFrom(), fails('not_found'))
    })

    it('ends a frozen sandbox with a snapshot of its memory, and leaves it frozen if that fails', async () => {
      if (!keepsMemory()) return
      const handle = await sandbox()
      await bench.driver.freeze(handle, undefined, { whileBusy: true })
      const options = { memory: true, afterwards: 'end', lasting: true } as const
      const aborted = bench.driver.takeSnapshot(handle, folder, options, AbortSignal.abort())
      await assert.rejects(aborted, { name: 'AbortError' })
      assert.equal(await bench.driver.recover(handle), 'frozen')
      assert.equal(await bench.driver.findSnapshot(folder), undefined)
      assert.equal((await bench.driver.takeSnapshot(handle, folder, options)).memory, true)
      assert.equal(await bench.driver.recover(handle), 'gone')
    })

    it('takes a snapshot with memory, or rejects it if the driver cannot', async () => {
      const handle = await sandbox()
      const options = { memory: true, afterwards: 'go-on', lasting: true } as const
      const saved = bench.driver.takeSnapshot(handle, folder, options)
      if (keepsMemory()) assert.equal((await saved).memory, true)
      else await assert.rejects(saved, fails('invalid_argument'))
    })

    it('lets another process start from a snapshot that this one took', async () => {
      const handle = await sandbox()
      await save(handle, 'end')
      await bench.driver.close()
      const other = bench.another()
      const fromSnapshot = { folder, memory: true, keepSnapshot: false }
      const again = await other.start({ ...newSpec(bench), runID: newUUID(), fromSnapshot })
      assert.deepEqual(await bench.recall(again), restored())
      await other.stop(again)
      await other.close()
    })
  })
}

type Fetch = Parameters<CanExportSnapshots['importSnapshot']>[2]

/** Carries the files from one folder to another, as the object store would. */
function carry(portable: (PortableSnapshot & { isCutOff?: true }) | undefined): Fetch {
  return async (targetOf) => {
    if (!portable) return false
    const { open } = await targetOf(JSON.parse(JSON.stringify(portable.note)))
    for (const file of portable.files) {
      const target = open(file.name, 0)
      if (target === undefined) continue
      if (portable.isCutOff) throw new Error('cut off')
      if (typeof target === 'function') await target((file as { content: AsyncIterable<Uint8Array> }).content)
      else await runCommand('cp', ['--sparse=always', (file as { path: string }).path, target])
    }
    return true
  }
}
