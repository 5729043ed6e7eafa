/** A program that is there for what it holds, a namespace for example, and does nothing else. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'

export type HeldProgram = {
  pid: number
  /** Kills it and waits for its end. */
  end(): Promise<void>
}

export type HoldRequest = { program: string; args: readonly string[] }

/**
 * Resolves once the program has printed something; rejects with its complaint when it ends before that. Its input stays
 * open until it is ended or this process dies, so it must end by itself with its input.
 */
export async function holdProgram({ program, args }: HoldRequest): Promise<HeldProgram> {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  const exited = once(child, 'exit')
  let complaint = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    complaint += text
  })
  child.stdin.on('error', () => {})
  const ended = exited.then(() => {
    throw new Error(`${program} ended: ${complaint.trim()}`)
  })
  await Promise.race([once(child.stdout, 'data'), ended])
  ended.catch(() => {})
  return {
    pid: child.pid!,
    async end() {
      child.kill('SIGKILL')
      await exited
    },
  }
}
