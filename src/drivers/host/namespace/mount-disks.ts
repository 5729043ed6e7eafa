/**
 * Makes the disk of a slot and mounts it in its own mount namespace, and mounts the root of a sandbox in that
 * of its slot.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { copySparsely } from '../../../lib/copy-sparsely.ts'
import { type AttachedLoop, attachLoop, attachSharedLoop } from './loop-devices.ts'
import {
  changeFolder,
  inNamespace,
  makeNamespace,
  mount,
  mountFlags,
  shareNoMounts,
  unmount,
} from './namespace-calls.ts'

/**
 * `namespace`: the file that keeps the new namespace alive. `image` becomes a copy of `blank`, which is
 * small.
 */
export type SlotDiskTask = { namespace: string; blank: string; image: string; target: string }
/** `disk` replaces the slot's own, to which nothing was written. `layers` are read-only and shared. */
export type ImagesTask = {
  namespace: string
  disk: MountedImage | undefined
  layers: readonly MountedImage[]
}
type MountedImage = { image: string; target: string }
/**
 * The folders of the overlay's options are relative to `roots`. `shown`: folders that the sandbox's users could not reach where
 * they are. `noSetuid`: programs of the root get no rights of their owners from this kernel.
 */
export type RootTask = {
  namespace: string
  roots: string
  overlay: string
  target: string
  noSetuid: boolean
  shown: readonly ShownFolder[]
}
export type ShownFolder = { source: string; target: string }

const rootFlags = mountFlags.noDevices | mountFlags.noAccessTimes
const diskFlags = rootFlags | mountFlags.noSetuid
/**
 * Inode tables need no zeroes in a file with holes: the kernel would write them, beside everything that runs.
 */
const diskOptions = 'discard,noinit_itable'

export function makeSlotDisk({ namespace, blank, image, target }: SlotDiskTask): void {
  copySparsely(blank, image)
  writeFileSync(namespace, '')
  makeNamespace('mounts', namespace, () => {
    shareNoMounts()
    mountDisk({ image, target })
  })
}

export function mountImages({ namespace, disk, layers }: ImagesTask): void {
  inNamespace('mounts', namespace, () => {
    if (disk) {
      unmount(disk.target)
      mountDisk(disk)
      // An overlay rejects a used disk as long as this folder of the last mount exists.
      rmSync(join(disk.target, 'work/work'), { recursive: true, force: true })
    }
    for (const { image, target } of layers) {
      attaching(attachSharedLoop(image), ({ path: source }) =>
        mount({ source, target, type: 'ext4', flags: diskFlags | mountFlags.readOnly }),
      )
    }
  })
}

export function mountRoot({ namespace, roots, overlay, target, noSetuid, shown }: RootTask): void {
  inNamespace('mounts', namespace, () => {
    changeFolder(roots, roots)
    mount({
      source: 'overlay',
      target,
      type: 'overlay',
      flags: noSetuid ? diskFlags : rootFlags,
      data: overlay,
    })
    for (const { source, target } of shown) mount({ source, target, flags: mountFlags.bind })
  })
}

function mountDisk({ image, target }: MountedImage): void {
  attaching(attachLoop(image), ({ path: source }) =>
    mount({ source, target, type: 'ext4', flags: diskFlags, data: diskOptions }),
  )
}

function attaching(device: AttachedLoop, work: (device: AttachedLoop) => void): void {
  try {
    work(device)
  } finally {
    device.release()
  }
}
