/**
 * Loop devices, over which the images of disks are mounted. A device detaches with its last user, so one that
 * is held here stays until it is released and nothing is mounted from it.
 */
import { closeSync, openSync, statSync } from 'node:fs'
import { kernelCall } from './namespace-calls.ts'

export type AttachedLoop = { path: string; release: () => void }

const requests = {
  getFree: 0x4c82,
  configure: 0x4c0a,
  setFile: 0x4c00,
  setStatus: 0x4c04,
  status: 0x4c05,
} as const
/**
 * The `struct loop_config`: the file, the block size (0: the default), a `struct loop_info64` and 64 reserved
 * bytes. The second has LO_FLAGS_AUTOCLEAR: the device detaches with its last user. One call must set the
 * file and this flag, if the kernel has it: a Warren that is killed between two calls leaves the device for
 * ever.
 */
const config = { bytes: 8 + 232 + 64, infoAt: 8 } as const
const info = { bytes: 232, deviceAt: 0, inodeAt: 8, flagsAt: 52, readOnly: 1, letsGo: 4 } as const
/** Others may take a free device first. */
const maxTries = 64
/** A forgotten image gets another device, which costs only memory. */
const maxShared = 1024

const control = kernelCall('int ioctl(int file, unsigned long request, long value)')
const structControl = kernelCall('int ioctl(int file, unsigned long request, void *value)')

/** By the image's device and inode. */
const shared = new Map<string, string>()

/** A writable device over a file. */
export const attachLoop = (image: string): AttachedLoop => attach(image, 'r+')

/**
 * A read-only device over a file, the same one as long as somebody has it mounted: the page cache then holds
 * a file that is below many sandboxes only once.
 */
export function attachSharedLoop(image: string): AttachedLoop {
  const { dev, ino } = statSync(image, { bigint: true })
  const key = `${dev}:${ino}`
  const known = shared.get(key)
  const attached = known === undefined ? undefined : openIfOver(known, dev, ino)
  if (attached) return attached
  const device = attach(image, 'r')
  shared.delete(key)
  shared.set(key, device.path)
  if (shared.size > maxShared) shared.delete(shared.keys().next().value!)
  return device
}

/** Undefined if the device has detached from that file, and may belong to another one by now. */
function openIfOver(path: string, dev: bigint, ino: bigint): AttachedLoop | undefined {
  const device = openDevice(path, 'r')
  const found = Buffer.alloc(info.bytes)
  try {
    structControl(path, device.fd, requests.status, found)
  } catch (error) {
    device.release()
    if ((error as NodeJS.ErrnoException).code === 'ENXIO') return undefined
    throw error
  }
  const isOver = found.readBigUInt64LE(info.deviceAt) === dev && found.readBigUInt64LE(info.inodeAt) === ino
  if (isOver && found.readUInt32LE(info.flagsAt) & info.readOnly) return device
  device.release()
  return undefined
}

function attach(image: string, mode: 'r' | 'r+'): AttachedLoop {
  const file = openSync(image, mode)
  const loops = openSync('/dev/loop-control', 'r+')
  try {
    for (let tries = 1; ; tries++) {
      const path = `/dev/loop${control('/dev/loop-control', loops, requests.getFree, 0)}`
      const device = openDevice(path, mode)
      try {
        setUp(path, device.fd, file)
        return device
      } catch (error) {
        device.release()
        if ((error as NodeJS.ErrnoException).code !== 'EBUSY' || tries === maxTries) throw error
      }
    }
  } finally {
    closeSync(loops)
    closeSync(file)
  }
}

function openDevice(path: string, mode: 'r' | 'r+'): AttachedLoop & { fd: number } {
  const fd = openSync(path, mode)
  return { path, fd, release: () => closeSync(fd) }
}

/** A file that was opened for reading makes a read-only device. */
function setUp(path: string, fd: number, file: number): void {
  const wanted = Buffer.alloc(config.bytes)
  wanted.writeUInt32LE(file)
  wanted.writeUInt32LE(info.letsGo, config.infoAt + info.flagsAt)
  try {
    structControl(path, fd, requests.configure, wanted)
  } catch (error) {
    // Before Linux 5.8 there is no such request, so two calls are needed.
    if (!['EINVAL', 'ENOTTY'].includes(String((error as NodeJS.ErrnoException).code))) throw error
    control(path, fd, requests.setFile, file)
    structControl(path, fd, requests.setStatus, wanted.subarray(config.infoAt, config.infoAt + info.bytes))
  }
}
