/** What an ordinary user of the machine can do: a process of `nobody`, without groups and capabilities, tries it. */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export type Tries = {
  /** Files and folders to open, for reading and for writing. */
  paths?: readonly string[]
  /** Programs to run. */
  programs?: readonly string[]
  /** Unix sockets, the abstract ones with an `@` in front, and `host:port`. */
  sockets?: readonly string[]
  /** Processes: to signal, and whose files to read. */
  pids?: readonly number[]
}

/** What could be done of it. */
export type Done = {
  read: string[]
  written: string[]
  run: string[]
  connected: string[]
  signalled: number[]
  /** Files of the processes, with what they hold. */
  shown: Record<string, string>
}

const program = fileURLToPath(new URL('ordinary-user-tries.ts', import.meta.url))

export function asOrdinaryUser(tries: Tries): Done {
  const input = JSON.stringify(tries)
  const said = execFileSync(process.execPath, [program], {
    input,
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
    cwd: '/',
  })
  return JSON.parse(said) as Done
}
