/** A small file system of its own, mounted where a test wants it: what fills it hurts nobody else on the machine. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const mebibyte = 1024 * 1024

export type SmallDisk = {
  freeMB(): number
  /** Takes so much of it away from everybody else. */
  takeAway(megabytes: number): void
  giveBack(): void
  remove(): void
}

export function mountSmallDisk(folder: string, sizeMB: number): SmallDisk {
  const image = `${folder}.image`
  const ballast = join(folder, 'ballast')
  unmount(folder)
  rmSync(image, { force: true })
  mkdirSync(folder, { recursive: true })
  execFileSync('truncate', ['--size', `${sizeMB}M`, image])
  // No blocks that only root may use: everybody meets the end of the disk at the same place.
  execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', image])
  execFileSync('mount', ['-o', 'loop', image, folder])
  return {
    freeMB: () => {
      const { bavail, bsize } = statfsSync(folder)
      return (bavail * bsize) / mebibyte
    },
    takeAway: (megabytes) => {
      writeFileSync(ballast, '')
      execFileSync('fallocate', ['--length', String(Math.floor(megabytes) * mebibyte), ballast])
    },
    giveBack: () => rmSync(ballast, { force: true }),
    remove: () => {
      unmount(folder)
      rmSync(image, { force: true })
    },
  }
}

/** One that a run which was cut off left behind may still be in use there. */
function unmount(folder: string): void {
  try {
    execFileSync('umount', ['--lazy', folder], { stdio: 'ignore' })
  } catch {
    // Nothing is mounted there.
  }
}
