/**
 * Tests of GPU memory in snapshots on machines without a GPU: gVisor and our program are real. The driver's library is a
 * test double that records its calls, and devices that do nothing stand for the card's.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { momentsOf } from '../../../../test/support/count-of.ts'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { isAppError } from '../../../lib/app-error.ts'
import { delay } from '../../../lib/clock.ts'
import { listed, newSpec } from '../../driver-fixture.ts'
import { findGpus } from '../../host/device/find-gpus.ts'
import { cardID, fakeDriver, fakeMachine } from '../../host/device/gpu-fixture.ts'
import type { MachineGpus } from '../../host/device/gpus.ts'
import { createLayout } from '../../host/record/layout.ts'
import type { OciBench } from './bench.ts'
import { killMakerIn, makeGood } from './dying-maker.ts'
import type { OciSuite } from './runtimes.ts'

const nodes = ['nvidia0', 'nvidiactl', 'nvidia-uvm', 'nvidia-uvm-tools'].map((name) => `/dev/${name}`)

/**
 * The state of a process is a file in the sandbox; so is what makes a step fail, take its time, hang, or lose its process.
 * A plus in the notes: the agent is told that the host has GPU memory of the process.
 */
const library = `#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static const char *state_of(int pid) { static char path[64]; snprintf(path, sizeof path, "/tmp/state-%d", pid); return path; }
static const char *mark_of(int pid) { static char path[64]; snprintf(path, sizeof path, "/dev/gpu-memory-%d", pid); return path; }
int cuInit(unsigned flags) { return 0; }
int cuGetErrorString(int error, const char **text) { *text = "the test wants it so"; return 0; }
int cuCheckpointProcessGetState(int pid, int *state) {
  FILE *file = fopen(state_of(pid), "r");
  *state = 0;
  if (file) { if (fscanf(file, "%d", state) != 1) *state = 3; fclose(file); }
  return 0;
}
static int step(const char *name, int pid, int next) {
  char fails[64], dies[64];
  FILE *notes = fopen("/tmp/notes", "a");
  fprintf(notes, "%s%s ", name, access(mark_of(pid), F_OK) == 0 ? "+" : "");
  fclose(notes);
  if (access("/tmp/slow", F_OK) == 0) usleep(250000);
  while (access("/tmp/hangs", F_OK) == 0) usleep(10000);
  snprintf(dies, sizeof dies, "/tmp/dies-%s-%d", name, pid);
  if (access(dies, F_OK) == 0) {
    kill(pid, SIGKILL);
    while (kill(pid, 0) == 0) usleep(10000);
    return 1;
  }
  snprintf(fails, sizeof fails, "/tmp/fails-%s", name);
  if (access(fails, F_OK) == 0) return 1;
  FILE *file = fopen(state_of(pid), "w");
  fprintf(file, "%d", next);
  fclose(file);
  return 0;
}
int cuCheckpointProcessLock(int pid, void *args) { return step("lock", pid, 1); }
int cuCheckpointProcessCheckpoint(int pid, void *args) { return step("checkpoint", pid, 2); }
int cuCheckpointProcessRestore(int pid, void *args) { return step("restore", pid, 1); }
int cuCheckpointProcessUnlock(int pid, void *args) { return step("unlock", pid, 0); }
`

/** A process that holds the card. Prints its id. */
const useMemory = `rm -f /tmp/held
setsid perl -e 'open my $card, "+<", "/dev/nvidia-uvm" or die $!; open my $out, ">", "/tmp/held"; print $out $$; close $out;
  sleep 1 while 1' </dev/null >/dev/null 2>&1 &
while ! [ -s /tmp/held ]; do sleep 0.01; done; cat /tmp/held`
const notes = 'cat /tmp/notes; rm -f /tmp/notes'

export const gpuMemorySuite: OciSuite = (runtime, open) => {
  if (runtime !== 'runsc') return
  describe('the memory of GPUs (runsc)', () => {
    let bench: OciBench
    const folder = mkdtempSync(join(tmpdir(), 'warren-gpu-memory-'))
    const made = nodes.filter((node) => !existsSync(node))

    before(async () => {
      for (const node of made) spawnSync('mknod', ['-m', '666', node, 'c', '1', '3'])
      const machine = fakeMachine(1)
      machine.write('/usr/bin/nvidia-smi', `#!/bin/sh\necho '${cardID(0)}, 5, 100, 1000'\n`)
      chmodSync(join(machine.root, '/usr/bin/nvidia-smi'), 0o755)
      machine.write('/library.c', library)
      const libcuda = join(machine.root, `/usr/lib/x86_64-linux-gnu/libcuda.so.${fakeDriver}`)
      const options = ['-shared', '-fPIC', '-Wl,-soname,libcuda.so.1', '-o', libcuda]
      const { status, stderr } = spawnSync('gcc', [...options, join(machine.root, 'library.c')])
      assert.equal(status, 0, String(stderr))
      // gVisor asks the driver for its version, and this machine has no driver.
      const wrapper = join(folder, 'runsc')
      const plain = await open()
      const { runtimeBinary } = plain.options
      await plain.close()
      writeFileSync(wrapper, `#!/bin/sh\nexec ${runtimeBinary} --nvproxy-driver-version=${fakeDriver} "$@"\n`)
      chmodSync(wrapper, 0o755)
      const found = findGpus(machine) as MachineGpus
      const program = resolve(import.meta.dirname, `../../../../native/built/gpu-checkpoint-${process.arch}`)
      bench = await open({
        runtimeBinary: wrapper,
        gpus: { machine: found, share: 4, checkpointProgram: program },
      })
    })

    after(async () => {
      await bench.close()
      rmSync(folder, { recursive: true })
      for (const node of made) rmSync(node, { force: true })
    })

    afterEach(async () => {
      for (const { handle } of await listed(bench.driver)) await bench.driver.stop(handle)
    })

    const usersOfMemory = async () => {
      const handle = await bench.sandbox({ gpuCount: 1 })
      await bench.run(handle, useMemory)
      return handle
    }
    const limitOf = ({ data }: DriverHandle) => {
      const { cgroup } = createLayout(bench.options.dataFolder, bench.options.instance)
      const group = cgroup(String(data.sandboxID))
      const files = [
        `/sys/fs/cgroup${group}/memory.max`,
        `/sys/fs/cgroup/memory${group}/memory.limit_in_bytes`,
      ]
      return Number(readFileSync(files.find((file) => existsSync(file))!, 'utf8'))
    }
    /** It is lowered once the memory is free. */
    const untilLimit = async (handle: DriverHandle, limit: number) => {
      for (let attempt = 0; limitOf(handle) !== limit; attempt++) {
        assert.ok(attempt < 600, `the limit is ${limitOf(handle)} and not ${limit}`)
        await delay(50)
      }
    }
    const snapshot = (handle: DriverHandle, name: string, afterwards: 'go-on' | 'end') =>
      bench.driver.takeSnapshot(handle, bench.snapshotFolder(name), {
        memory: true,
        afterwards,
        lasting: false,
      })

    it('moves to the host before a snapshot and back after it, and the sandbox gets its old memory limit back', async () => {
      const handle = await usersOfMemory()
      const limit = limitOf(handle)
      await snapshot(handle, 'kept', 'go-on')
      assert.equal(await bench.run(handle, notes), 'lock checkpoint+ restore+ unlock+ ')
      await untilLimit(handle, limit)
      await bench.driver.stop(handle)
    })

    it('moves back in every sandbox that starts from the snapshot, before the start returns', async () => {
      const handle = await usersOfMemory()
      await snapshot(handle, 'many', 'end')
      const fromSnapshot = { folder: bench.snapshotFolder('many'), memory: true, keepSnapshot: true }
      const forks = await Promise.all([1, 2].map(() => bench.sandbox({ fromSnapshot })))
      for (const fork of forks) {
        assert.equal(await bench.run(fork, notes), 'lock checkpoint+ restore+ unlock+ ')
        await bench.driver.stop(fork)
      }
      assert.equal(bench.driver.gpus?.free, 4)
    })

    it('stays on the card when the driver cannot move it, and the sandbox goes on', async () => {
      const handle = await usersOfMemory()
      await bench.run(handle, 'touch /tmp/fails-checkpoint')
      await assert.rejects(
        snapshot(handle, 'refused', 'end'),
        (error) =>
          isAppError(error, 'unavailable') &&
          /it goes on running: .*cannot move the GPU memory of the process to the host: the test wants it so/.test(
            error.message,
          ),
      )
      assert.equal(await bench.run(handle, notes), 'lock checkpoint+ unlock ')
      assert.equal(await bench.driver.findSnapshot(bench.snapshotFolder('refused')), undefined)
      await bench.run(handle, 'rm /tmp/fails-checkpoint')
      await snapshot(handle, 'then', 'go-on')
      await bench.driver.stop(handle)
    })

    it('of a process that dies while it is moved goes with it, and that of the others stays', async () => {
      const handle = await usersOfMemory()
      const dying = (await bench.run(handle, useMemory)).trim()
      const other = (await bench.run(handle, useMemory)).trim()
      await bench.run(handle, `touch /tmp/dies-checkpoint-${dying}`)
      const third = (await bench.run(handle, useMemory)).trim()
      await bench.run(handle, `touch /tmp/dies-restore-${third}`)
      await snapshot(handle, 'some', 'end')
      const fromSnapshot = { folder: bench.snapshotFolder('some'), memory: true, keepSnapshot: true }
      const next = await bench.sandbox({ fromSnapshot })
      const alive = (pid: string) => bench.run(next, `kill -0 ${pid} && cat /tmp/state-${pid}`)
      assert.equal(await alive(other), '0')
      for (const pid of [dying, third]) assert.match(await alive(pid), /No such process/)
      await bench.driver.stop(next)
    })

    it('does not keep a sandbox from being stopped when its move never ends', async () => {
      const handle = await usersOfMemory()
      await bench.run(handle, 'touch /tmp/hangs')
      const rejected = assert.rejects(snapshot(handle, 'hung', 'end'))
      await bench.run(handle, 'while ! grep -q lock /tmp/notes; do sleep 0.05; done')
      await bench.driver.stop(handle, AbortSignal.timeout(60_000))
      await rejected
      assert.equal(bench.driver.gpus?.free, 4)
      assert.equal(await bench.driver.findSnapshot(bench.snapshotFolder('hung')), undefined)
    })

    for (const verb of ['pause', 'snapshot'] as const) {
      it(`is whole and on the GPU again, whenever the maker dies in a ${verb}, and no GPU stays taken`, async () => {
        const first = await usersOfMemory()
        const sandboxID = String(first.data.sandboxID)
        const pid = (await bench.run(first, 'cat /tmp/held')).trim()
        const limit = limitOf(first)
        await bench.run(first, 'touch /tmp/slow')
        const folder = bench.snapshotFolder(`cut-off-${verb}`)
        for (const afterMs of momentsOf({ short: 4, long: 20 }, verb === 'pause' ? 2600 : 1800)) {
          await bench.driver.close()
          await killMakerIn(bench, { verb, sandboxID, folder }, afterMs)
          const handle = await makeGood(bench, sandboxID, folder)
          const said = await bench.run(
            handle,
            `kill -0 ${pid} && { cat /tmp/state-${pid} 2>/dev/null || printf 0; }; echo; cat /tmp/notes 2>/dev/null`,
          )
          const [state, steps = ''] = said.split('\n')
          assert.equal(state, '0', `after ${afterMs} ms: ${said}`)
          assert.match(steps, /^(lock checkpoint\+ restore\+ unlock\+ )*$/, `after ${afterMs} ms`)
          await untilLimit(handle, limit)
          await bench.driver.open()
          assert.equal(bench.driver.gpus?.free, 3, `after ${afterMs} ms`)
          await bench.driver.removeSnapshot(folder)
        }
        for (const { handle } of await listed(bench.driver)) await bench.driver.stop(handle)
        assert.equal(bench.driver.gpus?.free, 4)
      })
    }

    it('makes a start from the snapshot fail when it cannot move back to the card', async () => {
      const handle = await usersOfMemory()
      await bench.run(handle, 'touch /tmp/fails-restore')
      await snapshot(handle, 'stuck', 'end')
      const fromSnapshot = { folder: bench.snapshotFolder('stuck'), memory: true, keepSnapshot: true }
      await assert.rejects(bench.driver.start(newSpec(bench, { fromSnapshot })), (error) =>
        isAppError(error, 'unavailable'),
      )
      assert.equal(bench.driver.gpus?.free, 4)
    })
  })
}
