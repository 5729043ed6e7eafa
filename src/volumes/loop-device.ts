/**
 * Loop devices of disk images. All mounts of an image must use one device: two would be two file systems on
 * the same bytes, which destroys them.
 */
import { constants, type FileHandle, open, readFile, realpath } from 'node:fs/promises'
import { basename } from 'node:path'
import { AppError } from '../lib/app-error.ts'
import { delay } from '../lib/clock.ts'
import { ifPresent } from '../lib/if-present.ts'
import { runCommand } from '../lib/run-command.ts'

export type LoopDevice = { path: string; close(): Promise<void> }

const attempts = 50

/**
 * Returns the only device of the image: its present one, or a new one. Nobody else may attach the same image
 * meanwhile. The device stays as long as it is open here or mounted anywhere, and is detached automatically
 * afterwards, also if this process dies.
 */
export async function attachLoop(image: string): Promise<LoopDevice> {
  const file = await realpath(image)
  for (let attempt = 0; attempt < attempts; attempt++) {
    const { stdout } = await runCommand('losetup', ['--nooverlap', '--find', '--show', file])
    const path = stdout.trim()
    const device = await open(path, constants.O_RDONLY)
    // A device that was being detached may belong to another image by now; from here on it is open.
    if ((await backingFile(path)) === file) return await detachOnLastClose(path, device)
    await device.close()
    await delay(20)
  }
  throw new AppError('unavailable', `${image} could not be attached to a loop device; try again.`)
}

async function detachOnLastClose(path: string, device: FileHandle): Promise<LoopDevice> {
  try {
    await runCommand('losetup', ['--detach', path])
    return { path, close: () => device.close() }
  } catch (error) {
    await device.close()
    throw error
  }
}

async function backingFile(device: string): Promise<string | undefined> {
  const text = await ifPresent(readFile(`/sys/block/${basename(device)}/loop/backing_file`, 'utf8'))
  return text?.replace(/\n$/, '')
}
