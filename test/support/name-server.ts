/** A name server on loopback, and programs that ask it: names below a domain then lead to this machine. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** One for each process, so that several can stand beside each other. */
const address = `127.53.${(process.pid >> 8) & 255}.${process.pid & 255 || 1}`

export type NameServer = {
  /** Runs an unmodified program that knows no other name server. */
  spawn(program: string, args: string[], env: Record<string, string | undefined>): ChildProcess
  close(): Promise<void>
}

export async function startNameServer(domain: string): Promise<NameServer> {
  const folder = await mkdtemp(join(tmpdir(), 'names-'))
  const settings = join(folder, 'resolv.conf')
  await writeFile(settings, `nameserver ${address}\noptions timeout:2 attempts:2\n`)
  const socket = createSocket('udp4')
  socket.on('message', (query, from) => socket.send(answerTo(query, domain), from.port, from.address))
  socket.bind(53, address)
  await once(socket, 'listening')
  return {
    spawn(program, args, env) {
      const inNamespace = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
      return spawn('unshare', ['--mount', 'sh', '-c', inNamespace, settings, program, ...args], {
        env: env as NodeJS.ProcessEnv,
        stdio: ['ignore', 'pipe', 'pipe'],
      })
    },
    async close() {
      socket.close()
      await rm(folder, { recursive: true })
    },
  }
}

/** One question, one answer: 127.0.0.1 for an IPv4 address below the domain, nothing for anything else there. */
function answerTo(query: Buffer, domain: string): Buffer {
  const labels: string[] = []
  let at = 12
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const type = query.readUInt16BE(at + 1)
  const name = labels.join('.').toLowerCase()
  const ours = name === domain || name.endsWith(`.${domain}`)
  const found = ours && type === 1
  const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1])
  const reply = Buffer.concat([query.subarray(0, at + 5), ...(found ? [answer] : [])])
  reply.writeUInt16BE(ours ? 0x8580 : 0x8583, 2)
  reply.writeUInt16BE(1, 4)
  reply.writeUInt16BE(found ? 1 : 0, 6)
  reply.writeUInt32BE(0, 8)
  return reply
}
