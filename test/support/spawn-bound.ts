import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'

/** Starts a server for this process, which the kernel ends with it, however this one ends. */
export function spawnBound(program: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  return spawn('setpriv', ['--pdeathsig', 'KILL', '--', program, ...args], options)
}
