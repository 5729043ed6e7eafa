/** Tests of what happens to sandboxes when the process that made them is killed. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, afterEach, before, describe, it } from 'node:test'
import { momentsOf } from '../../../../test/support/count-of.ts'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { isAppError } from '../../../lib/app-error.ts'
import { delay } from '../../../lib/clock.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { listed, newSpec } from '../../driver-fixture.ts'
import { parseSubnet } from '../../host/network/addresses.ts'
import { createLayout } from '../../host/record/layout.ts'
import { startedPid } from '../runtime/runtime-files.ts'
import type { OciBench } from './bench.ts'

export function survivalSuite(runtime: 'runc' | 'runsc', open: () => Promise<OciBench>): void {
  describe(`sandboxes under ${runtime} whose Warren process is killed`, () => {
    let bench: OciBench
    let child: ChildProcess
    let lines: AsyncIterator<string>
    before(async () => {
      bench = await open()
    })
    after(() => bench?.close())
    afterEach(async () => {
      await killChild()
      for (const { handle } of await listed(bench.driver)) await bench.driver.stop(handle)
      await bench.driver.close()
    })

    async function startChild(work: { stops?: boolean } = {}): Promise<void> {
      const input = JSON.stringify({
        options: bench.options,
        rootFolder: bench.rootFolder,
        agent: bench.agent,
        ...work,
      })
      child = spawn(process.execPath, [join(import.meta.dirname, 'child.ts'), input], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]()
      assert.equal((await lines.next()).value, 'open')
    }

    async function killChild(): Promise<void> {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    }

    /** Waits, because the kernel removes network namespaces after the call has returned. */
    async function assertNoTraces(message?: string): Promise<void> {
      for (let attempt = 0; attempt < 100 && (await bench.traces()).length > 0; attempt++) await delay(50)
      assert.deepEqual(await bench.traces(), [], message)
    }

    it('go on running, and the next process recovers, uses and stops them', async () => {
      await startChild()
      const handle = JSON.parse((await lines.next()).value as string) as DriverHandle
      await killChild()
      assert.equal(await bench.driver.recover(handle), 'running')
      assert.equal((await bench.run(handle, 'echo still here')).trim(), 'still here')
      assert.ok(
        (await listed(bench.driver)).some((found) => found.handle.data.sandboxID === handle.data.sandboxID),
      )
      const next = await bench.sandbox()
      assert.notEqual(bench.driver.endpoint(next, 0).host, bench.driver.endpoint(handle, 0).host)
      await bench.driver.stop(handle)
      assert.equal(await bench.driver.recover(handle), 'gone')
    })

    it('leave nothing behind once stopped, at whatever moment of a start the process died', async () => {
      for (const afterMs of momentsOf({ short: 5, long: 30 }, 180)) {
        await startChild()
        await delay(afterMs)
        await killChild()
        for (const { handle } of await listed(bench.driver)) await bench.driver.stop(handle)
        await bench.driver.open()
        await bench.driver.close()
        await assertNoTraces(`killed after ${afterMs} ms`)
      }
    })

    it('are dismantled by the next process if they were stopped before, and are never listed again', async () => {
      await startChild({ stops: true })
      const handle = JSON.parse((await lines.next()).value as string) as DriverHandle
      await killChild()
      const folder = layoutOf(bench).sandbox(String(handle.data.sandboxID))
      assert.ok(existsSync(folder), 'it was dismantled at once')
      assert.equal(await bench.driver.recover(handle), 'gone')
      await bench.driver.open()
      const found = await listed(bench.driver)
      assert.ok(!found.some(({ handle: { data } }) => data.sandboxID === handle.data.sandboxID))
      for (let attempt = 0; attempt < 200 && existsSync(folder); attempt++) await delay(50)
      assert.ok(!existsSync(folder), 'it was not dismantled')
      for (const one of found) await bench.driver.stop(one.handle)
      await bench.driver.close()
      await assertNoTraces()
    })

    it('are dismantled at once if their end cannot be recorded, as on a full disk', async () => {
      const handle = await bench.sandbox()
      const folder = layoutOf(bench).sandbox(String(handle.data.sandboxID))
      // A folder takes the place of the file that would record the end.
      mkdirSync(join(folder, 'record.json.new'))
      await bench.driver.stop(handle)
      assert.ok(!existsSync(folder))
    })

    it('are not touched by a second process while the first one lives', async () => {
      await startChild()
      await assert.rejects(bench.driver.start(newSpec(bench)), (error) => isAppError(error, 'conflict'))
    })

    it('are not started beside the rules of another Warren for their network, which the message names', async () => {
      const table = `warren_feed${String(process.pid % 100).padStart(2, '0')}`
      const { gate } = parseSubnet(bench.options.subnet)
      const rules = `table inet ${table} { chain to-host { ip daddr ${gate} ct direction original reject; }; }`
      await runCommand('nft', ['-f', '-'], { input: rules })
      try {
        await assert.rejects(bench.sandbox(), new RegExp(`"nft delete table inet ${table}"`))
      } finally {
        await runCommand('nft', ['delete', 'table', 'inet', table])
      }
      await bench.sandbox()
    })

    it('are found gone, and still listed, when their first process was killed', async () => {
      const handle = await bench.sandbox()
      process.kill(await processOf(bench, handle), 'SIGKILL')
      for (let attempt = 0; attempt < 100 && (await bench.driver.recover(handle)) !== 'gone'; attempt++)
        await delay(20)
      assert.equal(await bench.driver.recover(handle), 'gone')
      assert.equal((await bench.driver.list()).length, 1)
    })
  })
}

const layoutOf = ({ options }: OciBench) => createLayout(options.dataFolder, options.instance)

async function processOf(bench: OciBench, handle: DriverHandle): Promise<number> {
  return (await startedPid(layoutOf(bench).sandbox(String(handle.data.sandboxID))))!
}
