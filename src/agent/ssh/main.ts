/**
 * The process of one SSH connection, which the agent starts as the user who logs in. The first line of its input says what to
 * serve, the rest is the connection.
 */
import { Socket } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { Duplex } from 'node:stream'
import { loadNative } from '../process/native.ts'
import { serveConnection } from './connection.ts'
import type { SshStart } from './ssh-start.ts'

/** Set by the build of the bundle, which alone knows the addon's path. */
declare const agentAddon: string | undefined

const addonOf = (): string =>
  typeof agentAddon === 'string' ? join(dirname(process.argv[1]!), basename(agentAddon)) : process.argv[2]!

async function readFirstLine(input: Socket): Promise<string> {
  const chunks: Buffer[] = []
  for (;;) {
    const chunk: Buffer | null = input.read()
    if (chunk === null) {
      if (input.readableEnded) throw new Error('the agent said nothing')
      await new Promise((resolve) => input.once('readable', resolve))
      continue
    }
    const end = chunk.indexOf('\n')
    if (end < 0) {
      chunks.push(chunk)
      continue
    }
    chunks.push(chunk.subarray(0, end))
    if (end + 1 < chunk.length) input.unshift(chunk.subarray(end + 1))
    return Buffer.concat(chunks).toString()
  }
}

async function serve(): Promise<void> {
  const input = new Socket({ fd: 0, readable: true, writable: false })
  const output = new Socket({ fd: 1, readable: false, writable: true })
  const start = JSON.parse(await readFirstLine(input)) as SshStart
  const native = loadNative(addonOf())
  const stream = Duplex.from({ readable: input, writable: output })
  serveConnection(stream, start, native, () => process.exit(0))
}

serve().catch(() => process.exit(1))
