/** A program that is there for what it holds, a namespace for example, and does nothing else. */
import { once } from 'node:events'
import { spawnChild } from './spawn-program.ts'

export type HeldProgram = {
  pid: number
  /** Kills it and waits for its end. */
  end(): Promise<void>
}

export type HoldRequest = { program: string; args: readonly string[] }

/**
 * The program is given an empty line. Resolves once it has printed something; rejects with its complaint when it ends
 * before that. Its input stays open until it is ended or this process dies, so it must end by itself with its input.
 */
export async function holdProgram({ program, args }: HoldRequest): Promise<HeldProgram> {
  const child = spawnChild(program, args, { hasInput: true })
  let complaint = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    complaint += text
  })
  child.stdin!.on('error', () => {}).write('\n')
  const ended = child.exited.then(() => {
    throw new Error(`${program} ended: ${complaint.trim()}`)
  })
  await Promise.race([once(child.stdout, 'data'), ended])
  ended.catch(() => {})
  child.stdout.resume()
  return {
    pid: child.pid!,
    async end() {
      child.kill()
      await child.exited
    },
  }
}
