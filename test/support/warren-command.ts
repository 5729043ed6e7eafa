/** The `warren` command, run as a person runs it. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { join } from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { repoFolder } from './warren.ts'

export type Ended = { code: number | null; out: string; error: string }

const program = join(repoFolder, 'bin/warren')

/** Only these variables of Warren and of clients reach it. */
export function startProgram(
  environment: Record<string, string>,
  name: string,
  args: readonly string[],
): ChildProcessWithoutNullStreams {
  const clean = Object.entries(process.env).filter(([name]) => !/^(WARREN|E2B)_/.test(name))
  const child = spawn(name, args, { env: { ...Object.fromEntries(clean), ...environment } })
  codes.set(child, new Promise((done) => void child.once('close', done)))
  return child
}

/** Known from the start: a program may have ended before somebody asks for its code. */
const codes = new WeakMap<ChildProcessWithoutNullStreams, Promise<number | null>>()

export const startCommand = (environment: Record<string, string>, args: readonly string[]) =>
  startProgram(environment, program, args)

/** Of a program from `startProgram`. */
export const codeOf = (child: ChildProcessWithoutNullStreams): Promise<number | null> => codes.get(child)!

export async function runCommandLine(
  environment: Record<string, string>,
  args: readonly string[],
  { input = '', namespace }: { input?: string | Buffer; namespace?: string } = {},
): Promise<Ended> {
  const child = namespace
    ? startProgram(environment, 'nsenter', [`--net=${namespace}`, program, ...args])
    : startCommand(environment, args)
  const code = codeOf(child)
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const [out, error] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { code: await code, out, error }
}

/** The same for output that is not text. */
export async function bytesOf(
  environment: Record<string, string>,
  args: readonly string[],
  input: Buffer,
): Promise<Buffer> {
  const child = startCommand(environment, args)
  child.stdin.end(input)
  const [out] = await Promise.all([buffer(child.stdout), text(child.stderr)])
  return out
}
