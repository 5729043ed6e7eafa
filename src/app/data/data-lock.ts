/** Prevents a second Warren on a data folder for as long as this process lives, however it ends. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs'
import { AppError } from '../../lib/app-error.ts'

type DataLock = {
  /** Names the folder on this boot of the machine: whoever had it before has released the lock or ended. */
  folderID: string
  release(): void
}

export function lockDataFolder(path: string): DataLock {
  const file = openSync(path, 'a+', 0o600)
  // The lock belongs to the open file, which flock shares with us and leaves behind when it ends.
  const { status, error } = spawnSync('flock', ['--nonblock', '3'], {
    stdio: ['ignore', 'ignore', 'ignore', file],
  })
  if (status === 0) {
    ftruncateSync(file)
    writeSync(file, `${process.pid}\n`)
    return { folderID: folderIDOf(file), release: () => closeSync(file) }
  }
  closeSync(file)
  if (error) {
    throw new AppError(
      'unavailable',
      `Cannot lock the data folder: ${error.message} (flock, of util-linux)`,
      {
        cause: error,
      },
    )
  }
  throw new AppError(
    'already_exists',
    `Warren is already running on this data folder (process ${readFileSync(path, 'utf8').trim()}). Stop it first, or set WARREN_DATA_DIR, WARREN_PORT and WARREN_SUBNET to start a second one.`,
  )
}

/** A copy of the folder has another inode, and another machine, or another boot of this one, another boot ID. */
function folderIDOf(file: number): string {
  const { dev, ino } = fstatSync(file, { bigint: true })
  const bootID = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  return createHash('sha256').update(`${bootID} ${dev} ${ino}`).digest('hex').slice(0, 32)
}
