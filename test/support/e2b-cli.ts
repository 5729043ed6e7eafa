/** `e2b`, the command line, as a user types it. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify, stripVTControlCharacters } from 'node:util'
import { repoFolder, type Warren } from './warren.ts'

/** What it printed; rejects when it ends with a failure. */
export async function e2b(warren: Warren, ...words: string[]): Promise<string> {
  const running = promisify(execFile)(join(repoFolder, 'node_modules/.bin/e2b'), words, {
    env: { ...process.env, ...warren.environment },
    timeout: 600_000,
    killSignal: 'SIGKILL',
  })
  // `exec` hands its input on, and would wait for the end of ours.
  running.child.stdin?.end()
  const { stdout } = await running
  return stripVTControlCharacters(stdout)
}
