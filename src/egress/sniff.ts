/** Reads just enough of a new connection to determine its protocol and host name; the bytes stay unread. */
import type { Socket } from 'node:net'
import type { Clock } from '../lib/clock.ts'
import { type ClientHello, longestClientHello, readClientHello } from './client-hello.ts'

export type Opening =
  | { kind: 'tls'; hello: ClientHello }
  | { kind: 'http' }
  | { kind: 'other' }
  | { kind: 'silent' }

/** TLS records add their own heads. */
const maxBytes = longestClientHello + 1024
const longestMethod = 24

/** Null: the connection ended. 'silent': not enough bytes came in time. */
export function readOpening(socket: Socket, clock: Clock, withinMs: number): Promise<Opening | null> {
  return new Promise((resolve) => {
    let chunks: Buffer[] = []
    const done = (opening: Opening | null) => {
      cancel()
      socket.pause()
      socket.off('data', onChunk).off('end', left).off('close', left)
      const bytes = Buffer.concat(chunks)
      if (opening && bytes.length > 0) socket.unshift(bytes)
      resolve(opening)
    }
    const onChunk = (chunk: Buffer) => {
      chunks = [Buffer.concat([...chunks, chunk])]
      const opening = readBytes(chunks[0]!)
      if (opening) done(opening)
    }
    const left = () => done(null)
    const cancel = clock.after(withinMs, () => done({ kind: 'silent' }))
    socket.on('data', onChunk).on('end', left).on('close', left)
    socket.resume()
  })
}

/** Null if more bytes are needed. */
export function readBytes(bytes: Buffer): Opening | null {
  if (bytes[0] === 22) {
    const hello = readClientHello(bytes)
    if (hello === 'more') return bytes.length > maxBytes ? { kind: 'other' } : null
    return hello ? { kind: 'tls', hello } : { kind: 'other' }
  }
  const start = bytes.toString('latin1', 0, longestMethod)
  const method = /^[A-Z]+/.exec(start)?.[0] ?? ''
  if (method === '' || (method.length < start.length && start[method.length] !== ' '))
    return { kind: 'other' }
  if (method.length === start.length) return start.length < longestMethod ? null : { kind: 'other' }
  // HTTP/2 without TLS; the gate does not read it.
  return { kind: method === 'PRI' ? 'other' : 'http' }
}
