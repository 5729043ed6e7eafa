/**
 * Tests of sandboxes with GPUs on machines without one: other character devices stand for the cards, and plain files for
 * the driver. Tests that need a real card are in test/gpu.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { isAppError } from '../../../lib/app-error.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { findGpus } from '../../host/device/find-gpus.ts'
import { fakeMachine } from '../../host/device/gpu-fixture.ts'
import type { MachineGpus } from '../../host/device/gpus.ts'
import type { OciBench } from './bench.ts'
import type { OciSuite } from './runtimes.ts'

const cards = [0, 1]
const nodeOf = (card: number) => `/dev/warren-test-${process.pid}-gpu${card}`
const look = `ls /dev | grep gpu; ls -d /.warren-gpu; cat /usr/lib/*-linux-gnu/libcuda.so.1; readlink /usr/bin/nvidia-smi`

export const gpuSuite: OciSuite = (runtime, open) => {
  // gVisor passes calls on to devices of NVIDIA's driver only, so it cannot use these stand-ins.
  if (runtime !== 'runc') return
  describe(`GPUs of sandboxes (${runtime})`, () => {
    let bench: OciBench

    before(async () => {
      const found = findGpus(fakeMachine(cards.length)) as MachineGpus
      const gpus = cards.map((card) => ({
        ...found.gpus[card]!,
        nodes: [{ path: nodeOf(card), major: 1, minor: 3 }],
      }))
      for (const card of cards) await runCommand('mknod', ['-m', '666', nodeOf(card), 'c', '1', '3'])
      const machine = { ...found, gpus, sharedNodes: [] }
      bench = await open({ gpus: { machine, share: 1, checkpointProgram: import.meta.filename } })
      await bench.driver.open()
    })

    after(async () => {
      await bench.close()
      for (const card of cards) await runCommand('rm', ['-f', nodeOf(card)])
    })

    it('are in the sandbox with the libraries of their driver, and no other GPU is', async () => {
      const handle = await bench.sandbox({ gpuCount: 1 })
      const [node, folder, library, program] = (await bench.run(handle, look))
        .trim()
        .split(/\n|(?<=libcuda)(?=\/)/)
      assert.equal(`/dev/${node}`, nodeOf(0))
      assert.deepEqual([folder, library, program], ['/.warren-gpu', 'libcuda', '/.warren-gpu/bin/nvidia-smi'])
      assert.equal(await bench.run(handle, `echo x > ${nodeOf(0)} && echo written`), 'written\n')
      assert.match(await bench.run(handle, 'touch /.warren-gpu/x 2>&1'), /Read-only/)
      await bench.driver.stop(handle)
    })

    it('are not in a sandbox that did not ask for one', async () => {
      const handle = await bench.sandbox()
      assert.equal(await bench.run(handle, `(${look}) 2>/dev/null; echo nothing`), 'nothing\n')
      await bench.driver.stop(handle)
    })

    it('are counted in the size of a snapshot', async () => {
      const handle = await bench.sandbox({ gpuCount: 1 })
      const options = { memory: false, afterwards: 'end', lasting: false } as const
      const { size } = await bench.driver.takeSnapshot(handle, bench.snapshotFolder('with-gpu'), options)
      assert.equal(size.gpuCount, 1)
      assert.deepEqual(await bench.driver.list(), [])
      assert.equal(bench.driver.gpus?.free, 2)
    })

    it('are taken by a start, kept over a restart of Warren, and given back by a stop', async () => {
      assert.deepEqual(bench.driver.gpus, { model: 'NVIDIA H200', total: 2, free: 2, mostPerSandbox: 2 })
      const both = await bench.sandbox({ gpuCount: 2 })
      assert.equal(bench.driver.gpus?.free, 0)
      await assert.rejects(bench.sandbox({ gpuCount: 1 }), (error) => isAppError(error, 'unavailable'))
      const restarted = bench.another()
      await restarted.open()
      assert.equal(restarted.gpus?.free, 0)
      await restarted.stop(both)
      assert.equal(restarted.gpus?.free, 2)
      await restarted.close()
      await bench.driver.stop(both)
      assert.equal(bench.driver.gpus?.free, 2)
    })
  })
}
