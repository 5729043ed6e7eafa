import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { describe, it } from 'node:test'
import { findGpus, machineRoot } from './find-gpus.ts'
import { cardID, fakeDriver, fakeMachine } from './gpu-fixture.ts'
import type { MachineGpus, NoGpus } from './gpus.ts'

const nodesOf = (found: MachineGpus) => found.gpus.map(({ nodes }) => nodes.map(({ path }) => path))

const yaml = `---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidia-uvm
  - path: /dev/nvidiactl
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - args:
    - nvidia-cdi-hook
    - update-ldcache
    - --folder
    - /usr/lib/x86_64-linux-gnu
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.${fakeDriver}
    hostPath: /opt/driver/libcuda.so.${fakeDriver}
    options:
    - ro
    - nosuid
  - containerPath: /usr/bin/nvidia-smi
    hostPath: /opt/driver/nvidia-smi
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/dri/card1
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/dri/card1
  name: ${cardID(0)}
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: all
kind: nvidia.com/gpu
`

describe('the GPUs of a machine', () => {
  it('are the cards that the driver shows and that have a device in /dev', () => {
    const machine = fakeMachine(3)
    machine.devices.delete('/dev/nvidia1')
    const found = findGpus(machine) as MachineGpus
    assert.equal(found.driver, fakeDriver)
    assert.deepEqual(
      found.gpus.map(({ id, index, model }) => [id, index, model]),
      [
        [cardID(0), '0', 'NVIDIA H200'],
        [cardID(2), '2', 'NVIDIA H200'],
      ],
    )
    assert.deepEqual(found.gpus[1]!.nodes, [{ path: '/dev/nvidia2', major: 195, minor: 2 }])
    assert.deepEqual(
      found.sharedNodes.map(({ path }) => path),
      ['/dev/nvidiactl', '/dev/nvidia-uvm', '/dev/nvidia-uvm-tools'],
    )
  })

  it('come with the driver’s libraries for computing, in the driver’s version, and without those for screens', () => {
    const machine = fakeMachine(1)
    machine.write('/usr/lib/x86_64-linux-gnu/libcuda.so.470.1', 'old')
    const { libraries, programs } = findGpus(machine) as MachineGpus
    assert.deepEqual(libraries.map((path) => basename(path)).sort(), [
      `libcuda.so.${fakeDriver}`,
      `libnvidia-ml.so.${fakeDriver}`,
      `libnvidia-ptxjitcompiler.so.${fakeDriver}`,
    ])
    assert.deepEqual(
      programs.map((path) => basename(path)),
      ['nvidia-smi'],
    )
  })

  it('come with libraries from folders that only the machine’s loader knows', () => {
    const machine = fakeMachine(1)
    for (const name of ['libcuda', 'libnvidia-ml']) machine.write(`/elsewhere/${name}.so.${fakeDriver}`, name)
    const known = [`${machine.root}/elsewhere/libcuda.so.${fakeDriver}`, `${machine.root}/tools/nvidia-smi`]
    const found = findGpus({ ...machine, knownFiles: () => known }) as MachineGpus
    assert.deepEqual(
      found.libraries.filter((path) => path.includes('/elsewhere/')).map((path) => basename(path)),
      [`libcuda.so.${fakeDriver}`, `libnvidia-ml.so.${fakeDriver}`],
    )
    assert.equal(found.libraries.length, 3)
    assert.deepEqual(found.programs, [known[1]])
  })

  it('are the devices of a CDI specification, each of them once', () => {
    const machine = fakeMachine(2)
    machine.write('/etc/cdi/nvidia.yaml', yaml)
    machine.write('/etc/cdi/other.yaml', 'kind: vendor.com/nic\ndevices: []\n')
    const found = findGpus(machine) as MachineGpus
    assert.deepEqual(nodesOf(found), [['/dev/nvidia0']])
    assert.equal(found.gpus[0]!.id, cardID(0))
    assert.deepEqual(found.libraries, [`${machine.root}/opt/driver/libcuda.so.${fakeDriver}`])
    assert.deepEqual(found.programs, [`${machine.root}/opt/driver/nvidia-smi`])
    assert.equal(found.source, '/etc/cdi/nvidia.yaml')
  })

  it('may be parts of a card that a CDI specification in JSON lists', () => {
    const machine = fakeMachine(1)
    const part = (name: string, cap: number) => ({
      name,
      containerEdits: {
        deviceNodes: [{ path: '/dev/nvidia0' }, { path: `/dev/nvidia-caps/nvidia-cap${cap}` }],
      },
    })
    for (const cap of [21, 30]) machine.devices.set(`/dev/nvidia-caps/nvidia-cap${cap}`, [237, cap])
    const devices = [part('0:0', 21), part('MIG-11111111-0000', 21), part('0:1', 30)]
    machine.write('/var/run/cdi/gpu.json', JSON.stringify({ kind: 'nvidia.com/gpu', devices }))
    const found = findGpus(machine) as MachineGpus
    assert.deepEqual(
      found.gpus.map(({ id, index }) => [id, index]),
      [
        ['MIG-11111111-0000', '0:0'],
        [`${cardID(0)}:0:1`, '0:1'],
      ],
    )
    assert.deepEqual(nodesOf(found)[1], ['/dev/nvidia-caps/nvidia-cap30', '/dev/nvidia0'])
  })

  it('do not include a card that MIG has split, other than by its parts', () => {
    const machine = fakeMachine(2)
    machine.write('/proc/driver/nvidia/capabilities/gpu0/mig/gi11/access', 'DeviceFileMinor: 102\n')
    machine.write('/proc/driver/nvidia/capabilities/gpu1/mig/config', 'DeviceFileMinor: 1\n')
    assert.deepEqual(nodesOf(findGpus(machine) as MachineGpus), [['/dev/nvidia1']])
    machine.devices.delete('/dev/nvidia1')
    const none = findGpus(machine) as NoGpus
    assert.match(`${none.reason}. ${none.remedy}`, /MIG has split the card.*nvidia-smi -mig 0/)
  })

  it('are reported with a reason and a remedy when there are none', () => {
    const without = fakeMachine(1)
    without.devices.delete('/dev/nvidia-uvm')
    assert.match((findGpus(without) as NoGpus).reason, /nvidia-uvm is missing/)
    const noCard = findGpus(fakeMachine(0)) as NoGpus
    assert.deepEqual([noCard.hasDriver, /no GPU with a device/.test(noCard.reason)], [true, true])
    const bare = findGpus({ ...without, root: '/nowhere' }) as NoGpus
    assert.deepEqual([bare.hasDriver, bare.reason], [false, 'no NVIDIA driver is loaded'])
  })

  it('are not guessed when a specification cannot be read', () => {
    const machine = fakeMachine(1)
    machine.write('/etc/cdi/nvidia.yaml', 'kind: &anchor nvidia.com/gpu\n')
    assert.throws(() => findGpus(machine), /nvidia\.yaml cannot be read: line 1 is not plain.*--format=json/)
  })
})

describe('the root of the machine', () => {
  it('is that of its first process if Warren has another, and its own otherwise', (context) => {
    const [own, machine] = [0, 1].map(() => mkdtempSync(join(tmpdir(), 'warren-root-'))) as [string, string]
    context.after(() => {
      for (const folder of [own, machine]) rmSync(folder, { recursive: true })
    })
    const first = join(own, 'first')
    symlinkSync(machine, first)
    assert.equal(machineRoot(own, first), first)
    assert.equal(machineRoot(machine, first), machine)
    assert.equal(machineRoot(own, join(own, 'unreadable')), own)
  })
})
