/** A machine with GPUs made of plain files, for tests on machines that have none. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { GpuSources } from './find-gpus.ts'

type FakeMachine = GpuSources & {
  write(path: string, text: string): void
  devices: Map<string, number[]>
}

export const fakeDriver = '580.159.04'
const libraries = ['libcuda', 'libnvidia-ml', 'libnvidia-ptxjitcompiler', 'libnvidia-glcore']

/** `cards` is the number of cards that the driver shows. Each has a node in /dev. The libraries lie in Debian's folders. */
export function fakeMachine(cards: number): FakeMachine {
  const root = mkdtempSync(join(tmpdir(), 'warren-gpus-'))
  // Not after a test: hooks of a suite make machines for all its tests.
  process.once('exit', () => rmSync(root, { recursive: true, force: true }))
  const devices = new Map<string, number[]>()
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  write(
    '/proc/driver/nvidia/version',
    `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  ${fakeDriver}  Release Build  (root@host)\nGCC version: 12\n`,
  )
  for (let card = 0; card < cards; card++) {
    write(
      `/proc/driver/nvidia/gpus/0000:0${card}:00.0/information`,
      `Model: \t\t NVIDIA H200\nIRQ:   \t\t 65\nGPU UUID: \t ${cardID(card)}\nDevice Minor: \t ${card}\n`,
    )
    devices.set(`/dev/nvidia${card}`, [195, card])
  }
  for (const [path, numbers] of [
    ['/dev/nvidiactl', [195, 255]],
    ['/dev/nvidia-uvm', [234, 0]],
    ['/dev/nvidia-uvm-tools', [234, 1]],
  ] as const) {
    devices.set(path, [...numbers])
  }
  const folder = '/usr/lib/x86_64-linux-gnu'
  for (const name of libraries) {
    write(`${folder}/${name}.so.${fakeDriver}`, name)
    symlinkSync(`${name}.so.${fakeDriver}`, join(root, folder, `${name}.so.1`))
  }
  write('/usr/bin/nvidia-smi', '#!/bin/sh\nexit 1\n')
  const deviceAt = (path: string) => {
    const [major, minor] = devices.get(path) ?? []
    return major === undefined || minor === undefined ? undefined : { path, major, minor }
  }
  return { root, devices, write, deviceAt, knownFiles: () => [] }
}

export const cardID = (card: number): string => `GPU-00000000-0000-0000-0000-00000000000${card}`
