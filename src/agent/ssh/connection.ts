/** One SSH connection: who it belongs to was decided before it began, so nothing is asked of the client any more. */
import type { Duplex } from 'node:stream'
import ssh2 from 'ssh2'
import type { Native } from '../process/native.ts'
import { Forwarding } from './forwarding.ts'
import { serveSession } from './session.ts'
import type { SshStart } from './ssh-start.ts'

/** Sessions and forwarded connections at one time. */
const maxChannels = 256
/** The time for keys to be exchanged and the user to be named. */
const greetWithinMs = 60_000
/** A client that does not answer for a quarter of an hour is gone. */
const keepaliveMs = 300_000
const maxUnansweredKeepalives = 3

/** Calls `onEnd` once the connection is over. */
export function serveConnection(stream: Duplex, start: SshStart, native: Native, onEnd: () => void): void {
  const server = new ssh2.Server({
    hostKeys: [start.hostKey],
    ident: 'Warren',
    keepaliveInterval: keepaliveMs,
    keepaliveCountMax: maxUnansweredKeepalives,
  })
  let channels = 0
  const reserve = (): (() => void) | undefined => {
    if (channels >= maxChannels) return undefined
    channels++
    let isFree = false
    return () => {
      if (!isFree) channels--
      isFree = true
    }
  }
  stream.once('close', onEnd)
  // The library only ends its side, also where the other side speaks something else.
  stream.once('finish', () => stream.destroy())
  stream.once('end', () => stream.destroy())
  const overdue = setTimeout(() => stream.destroy(), greetWithinMs)
  server.on('connection', (client) => {
    // A client that breaks off is none of our errors, and the connection closes after every other.
    client.on('error', () => stream.destroy())
    client.on('authentication', (asked) => {
      if (asked.method === 'none' && asked.username === start.login) asked.accept()
      else asked.reject()
    })
    client.on('ready', () => {
      clearTimeout(overdue)
      const forwarding = new Forwarding(client, reserve)
      client.on('session', (accept, reject) => {
        const onEnd = reserve()
        if (onEnd) serveSession(accept(), { start, native, onEnd })
        else reject()
      })
      client.on('close', () => forwarding.close())
    })
  })
  // Its listener for sockets takes any stream.
  server.injectSocket(stream as never)
}
