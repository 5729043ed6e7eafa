/** Tests that the shipped program for GPU memory is built from its source, and that it calls the driver in the right order. */
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { compilers, ownCompiler, testShipped } from '../../test/support/compilers.ts'

const native = resolve(import.meta.dirname, '../../native')
const folder = mkdtempSync(join(tmpdir(), 'warren-gpu-checkpoint-'))
const freedMark = '/dev/gpu-memory-freed'
after(() => {
  rmSync(folder, { recursive: true })
  rmSync(freedMark, { force: true })
})

const shipped = (machine: string) => join(native, `built/gpu-checkpoint-${machine}`)

suite('the built program', () => {
  testShipped('native/build-gpu-checkpoint', {
    shipped,
    build(machine) {
      const file = join(folder, machine)
      execFileSync(join(native, 'build-gpu-checkpoint'), [machine, file])
      return file
    },
  })

  test('runs with every C library that the GPU driver supports', () => {
    for (const machine of Object.keys(compilers)) {
      const text = execFileSync('readelf', ['-W', '--dynamic', '--version-info', shipped(machine)], {
        encoding: 'utf8',
      })
      const needed = [...text.matchAll(/Shared library: \[([^\]]+)\]/g)].map(([, name]) => name)
      assert.deepEqual(needed, ['libcuda.so.1', 'libc.so.6'])
      const versions = [...text.matchAll(/Name: (GLIBC_\S+)/g)].map(([, name]) => name)
      assert.deepEqual(versions, [machine === 'x64' ? 'GLIBC_2.2.5' : 'GLIBC_2.17'])
    }
  })
})

/** A test double of the driver's library: it records its calls, and fails on demand. */
const fakeDriver = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { return getenv("NO_GPU") ? 100 : 0; }
int cuGetErrorString(int error, const char **text) { *text = error == 100 ? "no device" : "not supported"; return 0; }
int cuCheckpointProcessGetState(int pid, int *state) { *state = atoi(getenv("STATE")); return pid == 99 ? 1 : 0; }
static int note(const char *name, int pid) {
  FILE *file = fopen(getenv("NOTES"), "a");
  fprintf(file, "%s %d\\n", name, pid);
  fclose(file);
  return getenv("FAILS") && !strcmp(getenv("FAILS"), name);
}
static int memory[256];
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = memory + device; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return device; }
int cuCtxSetCurrent(void *context) { return context == NULL; }
int cuCtxSynchronize(void) { return 0; }
int cuMemAlloc_v2(unsigned long long *address, size_t bytes) { *address = (unsigned long long)memory; return bytes != sizeof memory; }
int cuMemFree_v2(unsigned long long address) { return address == 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes) { memcpy((void *)to, from, bytes); return 0; }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes) { memcpy(to, (void *)from, bytes); return 0; }
int cuModuleLoadData(void **module, const void *image) { *module = memory; return strstr(image, ".entry doubled") == NULL; }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = module; return strcmp(name, "doubled"); }
int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned threads) {
  for (unsigned i = 0; i < threads; i++) memory[i] *= getenv("MISCOUNTS") ? 3 : 2;
  return getenv("LAUNCHES_NOTHING") ? 801 : f == NULL || x * y * z != 1;
}
int cuCheckpointProcessLock(int pid, unsigned *args) { return note(args[0] > 1000 ? "lock" : "lock without an end", pid); }
int cuCheckpointProcessCheckpoint(int pid, void *args) { return note("checkpoint", pid); }
int cuCheckpointProcessRestore(int pid, void *args) { return note("restore", pid); }
int cuCheckpointProcessUnlock(int pid, void *args) { return note("unlock", pid); }
`

suite('the program', () => {
  const notes = join(folder, 'notes')
  before(() => {
    writeFileSync(join(folder, 'driver.c'), fakeDriver)
    const library = ['-Wl,-soname,libcuda.so.1', '-o', join(folder, 'libcuda.so.1'), join(folder, 'driver.c')]
    execFileSync(ownCompiler, ['-shared', '-fPIC', ...library])
  })
  const run = (args: string, env: Record<string, string> = {}) => {
    writeFileSync(notes, '')
    const given = { LD_LIBRARY_PATH: folder, NOTES: notes, STATE: '0', ...env }
    const { status, stdout } = spawnSync(shipped(process.arch), args.split(' '), {
      encoding: 'utf8',
      env: given,
    })
    return { status, stdout, asked: readFileSync(notes, 'utf8').trim().split('\n').join(', ') }
  }

  /** One that lives, since the program looks at that where the driver fails. */
  const living = process.pid
  const dead = spawnSync('true').pid

  test('prints the state of a process, and fails for one that does not use CUDA', () => {
    assert.deepEqual(run('--get-state --pid 7'), { status: 0, stdout: 'running\n', asked: '' })
    assert.equal(run('--get-state --pid 7', { STATE: '2' }).stdout, 'checkpointed\n')
    assert.equal(run('--get-state --pid 99').status, 1)
  })

  test('moves the GPU memory to the host, and back', () => {
    assert.deepEqual(run('--toggle --pid 7'), { status: 0, stdout: '', asked: 'lock 7, checkpoint 7' })
    assert.ok(existsSync('/dev/gpu-memory-7'))
    assert.equal(run('--toggle --pid 7', { STATE: '2' }).asked, 'restore 7, unlock 7')
    assert.ok(!existsSync('/dev/gpu-memory-7') && existsSync(freedMark))
    assert.equal(run('--toggle --pid 7', { STATE: '1' }).asked, 'unlock 7')
  })

  test('lets the process continue if its memory cannot be moved, and says why', () => {
    const { status, stdout, asked } = run(`--toggle --pid ${living}`, { FAILS: 'checkpoint' })
    assert.deepEqual([status, asked], [1, `lock ${living}, checkpoint ${living}, unlock ${living}`])
    assert.equal(stdout, 'The driver cannot move the GPU memory of the process to the host: not supported\n')
    assert.equal(run(`--toggle --pid ${living}`, { FAILS: 'lock' }).asked, `lock ${living}`)
    assert.equal(run(`--toggle --pid ${living}`, { FAILS: 'restore', STATE: '2' }).status, 1)
  })

  test('has nothing to do for a process that has ended meanwhile', () => {
    for (const [FAILS, STATE] of [
      ['lock', '0'],
      ['checkpoint', '0'],
      ['restore', '2'],
      ['unlock', '1'],
    ] as const) {
      const { status, stdout } = run(`--toggle --pid ${dead}`, { FAILS, STATE })
      assert.deepEqual([status, stdout], [0, ''], FAILS)
    }
    assert.equal(run(`--toggle --pid ${dead}`, { STATE: '3' }).status, 0)
  })

  test('counts a process that nobody has waited for as ended', async () => {
    // The shell starts it and never waits.
    const shell = spawn('sh', ['-c', 'sleep 1000 & echo $!; exec sleep 1000'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    try {
      const pid = Number(String((await once(shell.stdout, 'data'))[0]))
      assert.equal(run(`--toggle --pid ${pid}`, { FAILS: 'checkpoint' }).status, 1)
      process.kill(pid, 'SIGKILL')
      assert.equal(run(`--toggle --pid ${pid}`, { FAILS: 'restore', STATE: '2' }).status, 0)
    } finally {
      shell.kill('SIGKILL')
    }
  })

  test('lets the GPU compute, and fails if it cannot or computes something else', () => {
    assert.deepEqual(run('--compute'), { status: 0, stdout: 'computed\n', asked: '' })
    assert.deepEqual(
      run('--compute', { MISCOUNTS: '1' }).stdout,
      'The GPU computed something else: not supported\n',
    )
    assert.deepEqual(
      run('--compute', { LAUNCHES_NOTHING: '1' }).stdout,
      'The GPU runs no kernel: not supported\n',
    )
    assert.equal(run('--compute', { NO_GPU: '1' }).status, 1)
  })

  test('reports what is wrong with the machine or with its arguments', () => {
    assert.equal(run('--toggle --pid 7', { NO_GPU: '1' }).stdout, 'The GPU cannot be used: no device\n')
    for (const args of ['--toggle', '--toggle --pid x', '--pid 7 --other']) assert.equal(run(args).status, 1)
    assert.match(run(`--toggle --pid ${living}`, { STATE: '3' }).stdout, /An earlier move .* failed/)
  })
})
