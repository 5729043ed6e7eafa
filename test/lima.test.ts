/** The file for Lima has what Lima needs, and its script is one that a shell reads. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { parse } from 'yaml'
import { loadConfig } from '../src/app/config/config.ts'

type LimaMachine = {
  images: { location: string; arch: string }[]
  cpus: number
  memory: string
  disk: string
  mounts: { location: string; mountPoint: string; writable: boolean }[]
  portForwards: { guestPort: number; hostPort: number }[]
  provision: { mode: string; script: string }[]
}

const machine: LimaMachine = parse(
  readFileSync(join(import.meta.dirname, '../docs/lima/warren.yaml'), 'utf8'),
)

test('the machine of Lima has an image for each processor, and enough memory and disk', () => {
  assert.deepEqual(
    machine.images.map(({ arch, location }) => [arch, /^https:.*-(\w+)\.qcow2$/.exec(location)?.[1]]),
    [
      ['aarch64', 'arm64'],
      ['x86_64', 'amd64'],
    ],
  )
  assert.ok(machine.cpus >= 2)
  assert.ok(Number(/^(\d+)GiB$/.exec(machine.memory)?.[1]) >= 4)
  assert.ok(Number(/^(\d+)GiB$/.exec(machine.disk)?.[1]) >= 10)
})

test('it forwards the port of Warren, and cannot write into the clone of the Mac', () => {
  const { port } = loadConfig({})
  assert.deepEqual(machine.portForwards, [{ guestPort: port, hostPort: port }])
  assert.deepEqual(
    machine.mounts.map(({ mountPoint, writable }) => [mountPoint, writable]),
    [['/mnt/warren', false]],
  )
})

test('its script is one that a shell reads, runs as root, and names the folder that is mounted', () => {
  const [{ mode, script }, ...more] = machine.provision as [LimaMachine['provision'][number]]
  assert.deepEqual([mode, more.length], ['system', 0])
  execFileSync('sh', ['-n'], { input: script })
  assert.ok(script.startsWith('#!/bin/sh\nset -eu\n'))
  assert.ok(script.includes(`${machine.mounts[0]!.mountPoint}/dist/warren_`))
})
