/** Joins two connections: copies bytes both ways at the speed of their readers, passes on an end, and a failure as a reset. */
import type { Socket } from 'node:net'
import { noteSpent } from './node-internals/spent-buffers.ts'

const probeIdleMs = 60_000
/** After one side has ended, the other side may be silent for this long. */
const halfOpenIdleMs = 120_000

export function joinSockets(one: Socket, other: Socket, idleMs = halfOpenIdleMs): void {
  joinOneWay(one, other, idleMs)
  joinOneWay(other, one, idleMs)
}

function joinOneWay(from: Socket, to: Socket, idleMs: number): void {
  from.setNoDelay(true).setKeepAlive(true, probeIdleMs)
  from.on('error', () => {})
  from.on('data', (chunk: Buffer) => noteSpent(chunk.length))
  from.pipe(to)
  from.once('end', () => to.setTimeout(idleMs, () => resetSocket(to)))
  from.once('close', (failed) => {
    if (failed || !from.readableEnded) resetSocket(to)
    else to.destroySoon()
  })
}

/** The peer sees the connection break, never a clean end in the middle. */
export function resetSocket(socket: Socket): void {
  if (socket.destroyed) return
  // Only a plain TCP socket can send a reset (TLS broken off without its goodbye says the same), and only
  // before its own end: after that Node would leak the handle, and the peer has been told already.
  if ('encrypted' in socket || socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}
