/** Mounts the disk of a slot in a mount namespace of its own, and the root of a sandbox in that of its slot. */
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { changeFolder, inNamespace, kernelCall, makeNamespace, mount, mountFlags } from './namespace-calls.ts'

/** `namespace`: the file that the new namespace is kept by. */
export type SlotDiskTask = { namespace: string; image: string; target: string }
/** The folders of the overlay's options are relative to `roots`. */
export type RootTask = { namespace: string; roots: string; overlay: string; target: string }

const requests = { getFree: 0x4c82, setFile: 0x4c00, setStatus: 0x4c04 } as const
/** The `struct loop_info64`, and LO_FLAGS_AUTOCLEAR in it: the device lets go of itself with its last user. */
const status = Buffer.alloc(232)
status.writeUInt32LE(4, 52)
/** Others may take a free device before we do. */
const mostTries = 64

const control = kernelCall('int ioctl(int file, unsigned long request, long value)')
const setStatus = kernelCall('int ioctl(int file, unsigned long request, void *value)')

export function mountSlotDisk({ namespace, image, target }: SlotDiskTask): void {
  writeFileSync(namespace, '')
  makeNamespace('mounts', namespace, () => {
    mount({ source: null, target: '/', flags: mountFlags.recursive | mountFlags.private })
    mountImage(image, target)
  })
}

export function mountRoot({ namespace, roots, overlay, target }: RootTask): void {
  inNamespace('mounts', namespace, () => {
    changeFolder(roots, roots)
    const flags = mountFlags.noDevices | mountFlags.noAccessTimes
    mount({ source: 'overlay', target, type: 'overlay', flags, data: overlay })
  })
}

function mountImage(image: string, target: string): void {
  const device = attach(image)
  try {
    const flags = mountFlags.noDevices | mountFlags.noAccessTimes
    mount({ source: device.path, target, type: 'ext4', flags, data: 'discard' })
  } finally {
    closeSync(device.fd)
  }
}

/** A loop device over a file; it is there for as long as its descriptor is open or it is mounted. */
function attach(image: string): { path: string; fd: number } {
  const file = openSync(image, 'r+')
  const loops = openSync('/dev/loop-control', 'r+')
  try {
    for (let tries = 1; ; tries++) {
      const path = `/dev/loop${control('/dev/loop-control', loops, requests.getFree, 0)}`
      const fd = openSync(path, 'r+')
      try {
        control(path, fd, requests.setFile, file)
        setStatus(path, fd, requests.setStatus, status)
        return { path, fd }
      } catch (error) {
        closeSync(fd)
        if ((error as NodeJS.ErrnoException).code !== 'EBUSY' || tries === mostTries) throw error
      }
    }
  } finally {
    closeSync(loops)
    closeSync(file)
  }
}
