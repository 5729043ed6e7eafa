import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { checkpointProgram, driverLinks, findLibraryFolder, prepareDriverFiles } from './driver-files.ts'
import { findGpus } from './find-gpus.ts'
import { fakeDriver, fakeMachine } from './gpu-fixture.ts'
import type { MachineGpus } from './gpus.ts'

const own = import.meta.filename
const nobody = () => false

describe("the driver's files for sandboxes", () => {
  it('are in one folder that has each library under the names that programs ask for', async () => {
    const parent = mkdtempSync(join(tmpdir(), 'warren-drivers-'))
    const found = findGpus(fakeMachine(1)) as MachineGpus
    const folder = await prepareDriverFiles(parent, found, own, nobody)
    assert.equal(readFileSync(join(folder, 'lib/libcuda.so.1'), 'utf8'), 'libcuda')
    assert.equal(readlinkSync(join(folder, 'lib/libcuda.so.1')), `libcuda.so.${fakeDriver}`)
    assert.deepEqual(readdirSync(join(folder, 'bin')).sort(), ['gpu-checkpoint', 'nvidia-smi'])
    assert.equal(await prepareDriverFiles(parent, found, own, nobody), folder)
  })

  it('are copied again when the driver changes, and old copies are removed unless a sandbox uses them', async () => {
    const parent = mkdtempSync(join(tmpdir(), 'warren-drivers-'))
    const machine = fakeMachine(1)
    const found = findGpus(machine) as MachineGpus
    const first = await prepareDriverFiles(parent, found, own, nobody)
    utimesSync(found.libraries[0]!, 1, 1)
    const second = await prepareDriverFiles(parent, found, own, (folder) => folder === first)
    assert.notEqual(second, first)
    assert.deepEqual(
      readdirSync(parent)
        .map((name) => join(parent, name))
        .sort(),
      [first, second].sort(),
    )
    await prepareDriverFiles(parent, found, own, nobody)
    assert.deepEqual(
      readdirSync(parent).map((name) => join(parent, name)),
      [second],
    )
  })

  it('are linked from the library folder of the sandbox', async () => {
    const parent = mkdtempSync(join(tmpdir(), 'warren-drivers-'))
    const folder = await prepareDriverFiles(parent, findGpus(fakeMachine(1)) as MachineGpus, own, nobody)
    const links = new Map(driverLinks(folder, 'usr/lib64').map(({ path, target }) => [path, target]))
    assert.equal(links.get('usr/lib64/libcuda.so.1'), '/.warren-gpu/lib/libcuda.so.1')
    assert.equal(links.get('usr/bin/nvidia-smi'), '/.warren-gpu/bin/nvidia-smi')
    assert.equal(links.has('usr/bin/gpu-checkpoint'), false)
    assert.equal(checkpointProgram, '/.warren-gpu/bin/gpu-checkpoint')
    assert.deepEqual(
      driverLinks(folder, undefined).map(({ path }) => path),
      ['usr/bin/nvidia-smi'],
    )
  })

  it('are linked into the library folder of the machine’s own architecture', () => {
    const has = (path: string) => path !== 'usr/lib/x86_64-linux-gnu'
    assert.equal(findLibraryFolder(has, 'arm64'), 'usr/lib/aarch64-linux-gnu')
    assert.equal(findLibraryFolder(has, 'x64'), 'usr/lib64')
    assert.equal(
      findLibraryFolder(() => false, 'x64'),
      undefined,
    )
  })
})
