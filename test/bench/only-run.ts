/** Two runs at once would measure each other, and share data folders. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from '../support/warren.ts'

const lock = join(cacheFolder, 'bench', 'running')

/** The returned function lets the next run begin. */
export function beOnlyRun(): () => void {
  mkdirSync(join(cacheFolder, 'bench'), { recursive: true })
  const other = Number(readIfThere(lock))
  if (other && readIfThere(`/proc/${other}/cmdline`).includes('test/bench/run.ts')) {
    throw new Error(`Process ${other} is benchmarking already: wait for its end.`)
  }
  rmSync(lock, { force: true })
  writeFileSync(lock, String(process.pid), { flag: 'wx' })
  return () => rmSync(lock, { force: true })
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
