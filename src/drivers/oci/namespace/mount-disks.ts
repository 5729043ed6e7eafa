/** Mounts the disk of a slot in a mount namespace of its own, and the root of a sandbox in that of its slot. */
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { changeFolder, inNamespace, kernelCall, makeNamespace, mount, mountFlags } from './namespace-calls.ts'

/** `namespace`: the file that the new namespace is kept by. */
export type SlotDiskTask = { namespace: string; image: string; target: string }
/** The folders of the overlay's options are relative to `roots`. */
export type RootTask = { namespace: string; roots: string; overlay: string; target: string }

const requests = { getFree: 0x4c82, configure: 0x4c0a, setFile: 0x4c00, setStatus: 0x4c04 } as const
/**
 * The `struct loop_config`: the file, the size of blocks (0: the usual), a `struct loop_info64` and 64 bytes for later. In
 * the second, LO_FLAGS_AUTOCLEAR: the device lets go of itself with its last user. The file and this flag have to be set
 * by one call, where the kernel has it: a Warren that is killed between two leaves the device for ever.
 */
const config = { bytes: 8 + 232 + 64, infoAt: 8, infoBytes: 232, flagsAt: 8 + 52, letsGo: 4 } as const
/** Others may take a free device before we do. */
const mostTries = 64

const control = kernelCall('int ioctl(int file, unsigned long request, long value)')
const structControl = kernelCall('int ioctl(int file, unsigned long request, void *value)')

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
        setUp(path, fd, file)
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

function setUp(path: string, fd: number, file: number): void {
  const wanted = Buffer.alloc(config.bytes)
  wanted.writeUInt32LE(file)
  wanted.writeUInt32LE(config.letsGo, config.flagsAt)
  try {
    structControl(path, fd, requests.configure, wanted)
  } catch (error) {
    // Before Linux 5.8 there is no such request, and two calls have to do.
    if (!['EINVAL', 'ENOTTY'].includes(String((error as NodeJS.ErrnoException).code))) throw error
    control(path, fd, requests.setFile, file)
    const info = wanted.subarray(config.infoAt, config.infoAt + config.infoBytes)
    structControl(path, fd, requests.setStatus, info)
  }
}
