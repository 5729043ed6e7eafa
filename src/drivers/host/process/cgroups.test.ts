import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { findCgroupMounts } from './cgroup-mounts.ts'
import { Cgroups, openCgroups } from './cgroups.ts'

/** The build machines have version 1, so these tests read version 2 from plain files in the kernel's layout. */
describe('cgroups of version 2', () => {
  let mount: string
  let group: string
  let child: ChildProcess | undefined
  beforeEach(async () => {
    mount = await mkdtemp(join(tmpdir(), 'warren-cgroup-'))
    group = join(mount, 'warren-x', 'one')
    await mkdir(group, { recursive: true })
    await writeFile(join(mount, 'cgroup.controllers'), 'cpuset cpu io memory pids\n')
  })
  afterEach(async () => {
    child?.kill('SIGKILL')
    await rm(mount, { recursive: true, force: true })
  })
  const open = () => openCgroups(`30 23 0:26 / ${mount} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n`)

  it('say which limits can be set', () => {
    assert.deepEqual(
      ['cpu', 'memory', 'pids', 'rdma'].map((name) => open().has(name)),
      [true, true, true, false],
    )
  })

  it('report memory in use without cache that the kernel can drop', async () => {
    await writeFile(join(group, 'cpu.stat'), 'usage_usec 12345000\nuser_usec 1\n')
    await writeFile(join(group, 'memory.current'), '1000000\n')
    await writeFile(join(group, 'memory.stat'), 'anon 5\nfile 400000\nshmem 100000\nfile_mapped 1\n')
    assert.deepEqual(await open().use('/warren-x/one'), {
      cpuTimeMs: 12_345,
      memoryUsedBytes: 700_000,
      memorySharedBytes: 100_000,
      memoryCacheBytes: 300_000,
    })
  })

  it('report memory use and limit, and nothing if there is no limit yet', async () => {
    const memory = () => open().memory('/warren-x/one')
    assert.equal(memory(), undefined)
    await writeFile(join(group, 'memory.current'), '1000000\n')
    await writeFile(join(group, 'memory.stat'), 'anon 5\nfile 400000\nshmem 100000\n')
    await writeFile(join(group, 'memory.max'), 'max\n')
    assert.equal(memory(), undefined)
    await writeFile(join(group, 'memory.max'), '5000000\n')
    assert.deepEqual(memory(), { usedBytes: 700_000, limitBytes: 5_000_000 })
  })

  it('share one memory limit, which the group above them has', async () => {
    const parent = join(mount, 'warren-x')
    const limit = join(parent, 'memory.max')
    assert.equal(await open().limitMemory('/warren-x', null), true)
    await writeFile(join(mount, 'cgroup.subtree_control'), '')
    // The kernel makes the file when the controller is enabled. Without the file there must be an error, not a limit.
    await assert.rejects(open().limitMemory('/warren-x', 4096), { code: 'ENOENT' })
    assert.equal(await readFile(join(mount, 'cgroup.subtree_control'), 'utf8'), '+memory')
    await writeFile(limit, 'max')
    assert.equal(await open().limitMemory('/warren-x', 4096), true)
    assert.equal((await readFile(limit, 'utf8')).trim(), '4096')
  })

  it('get more memory by one file', async () => {
    await writeFile(join(group, 'memory.max'), '1')
    await open().raiseMemory('/warren-x/one', 4096)
    assert.equal(await readFile(join(group, 'memory.max'), 'utf8'), '4096')
  })

  it('get the usual share of the CPUs back by one file', async () => {
    await writeFile(join(group, 'cpu.weight'), '4')
    await open().restoreShares('/warren-x/one')
    assert.equal(await readFile(join(group, 'cpu.weight'), 'utf8'), '100')
  })

  it('list the processes that are in them', async () => {
    child = spawn('sleep', ['60'])
    await once(child, 'spawn')
    await writeFile(join(group, 'cgroup.procs'), `${child.pid}\n`)
    assert.deepEqual(await open().pids('/warren-x/one'), [child.pid])
    assert.deepEqual(await open().pids('/warren-x/none'), [])
  })

  it('do not list pid 0, which the kernel shows for a process that is just ending and which would kill the caller', async () => {
    await writeFile(join(group, 'cgroup.procs'), '0\n4194303\n0\n')
    assert.deepEqual(await open().pids('/warren-x/one'), [4_194_303])
  })

  it('are killed as a whole where the kernel can do that', async () => {
    await writeFile(join(group, 'cgroup.kill'), '')
    // The files of a real group go with its folder.
    await assert.rejects(open().end('/warren-x/one'), /ENOTEMPTY/)
    assert.equal(await readFile(join(group, 'cgroup.kill'), 'utf8'), '1')
  })
})

describe('cgroups of version 1', () => {
  it('are not considered empty just because the first hierarchy has no process in them', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'warren-cgroup-'))
    const [first, second] = ['cpu', 'memory'].map((name) => join(folder, name, 'warren-x'))
    const child = spawn('sleep', ['60'])
    try {
      await once(child, 'spawn')
      for (const group of [first!, second!]) await mkdir(group, { recursive: true })
      await writeFile(join(first!, 'cgroup.procs'), '')
      await writeFile(join(second!, 'cgroup.procs'), `${child.pid}\n`)
      const ended = once(child, 'exit').finally(() => writeFileSync(join(second!, 'cgroup.procs'), ''))
      const cgroups = new Cgroups({
        unified: false,
        controllers: ['cpu', 'memory'],
        v2: undefined,
        all: ['cpu', 'memory'].map((name) => join(folder, name)),
        file: (controller, group, name) => join(folder, controller, group, name),
      })
      // The files of a real group go with its folder.
      await assert.rejects(cgroups.end('/warren-x'), /ENOTEMPTY/)
      assert.deepEqual(await ended, [null, 'SIGKILL'])
    } finally {
      child.kill('SIGKILL')
      await rm(folder, { recursive: true })
    }
  })
})

describe('real cgroups', () => {
  const group = `/warren-test-${process.pid}`
  const folders = (group: string) => findCgroupMounts(mountinfo).all.map((mount) => join(mount, group))
  const mountinfo = readFileSync('/proc/self/mountinfo', 'utf8')
  const startIn = async (script: string): Promise<ChildProcess> => {
    const join = folders(group).map((folder) => `echo $$ > ${folder}/cgroup.procs`)
    const child = spawn('sh', ['-e', '-c', `${join.join('\n')}\necho\n${script}`], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(child.stdout, 'data')
    return child
  }

  it('can be frozen while their programs start others and wait for them', async () => {
    for (const folder of folders(group)) await mkdir(folder)
    await openCgroups().makeParent(group)
    try {
      // Version 1 cannot freeze a shell that waits in vfork; with four shells one of them is often in it.
      for (let count = 0; count < 4; count++) await startIn('while :; do /bin/true; done')
      for (let times = 0; times < 20; times++) {
        await openCgroups().freeze(group)
        await openCgroups().thaw(group)
      }
    } finally {
      await openCgroups().end(group)
    }
  })

  it('are emptied of programs that start others, and removed', async () => {
    for (const folder of folders(group)) await mkdir(folder)
    await openCgroups().makeParent(group)
    const storm = await startIn('while :; do sleep 0.02 & done')
    const ended = once(storm, 'exit')
    await openCgroups().end(group)
    assert.deepEqual(await ended, [null, 'SIGKILL'])
    assert.deepEqual(
      folders(group).filter((folder) => existsSync(folder)),
      [],
    )
  })
})
