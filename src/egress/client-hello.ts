/**
 * Reads the host name from the first message of a TLS connection, whose bytes the sandbox chose. Every length
 * is checked against the available bytes; only the name is copied.
 */

export type ClientHello = {
  /** The name as sent; null if there is none. */
  serverName: string | null
  /** The true name may be hidden in an encrypted part (ECH). */
  hidesName: boolean
}

/** With post-quantum keys and session tickets a real one has a few kilobytes. */
export const longestClientHello = 32 * 1024

const handshakeRecord = 22
const clientHelloMessage = 1
const longestRecord = 16 * 1024
/** Honest clients use one or two. */
const maxRecords = 64
const serverNameExtension = 0
const encryptedClientHello = 0xfe0d

/** 'more': the message is incomplete. Null: this is not a ClientHello. */
export function readClientHello(bytes: Buffer): ClientHello | 'more' | null {
  const message = joinRecords(bytes)
  if (message === null || message === 'more') return message
  try {
    return parseMessage(message)
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

/** The handshake message, which may lie in several records. */
function joinRecords(bytes: Buffer): Buffer | 'more' | null {
  const parts: Buffer[] = []
  let gathered = 0
  let needed: number | null = null
  for (let at = 0; parts.length < maxRecords; ) {
    if (at < bytes.length && bytes[at] !== handshakeRecord) return null
    if (at + 1 < bytes.length && bytes[at + 1] !== 3) return null
    if (bytes.length - at < 5) return 'more'
    const length = bytes.readUInt16BE(at + 3)
    if (length === 0 || length > longestRecord) return null
    const part = bytes.subarray(at + 5, at + 5 + length)
    parts.push(part)
    gathered += part.length
    if (parts[0]!.length > 0 && parts[0]![0] !== clientHelloMessage) return null
    if (needed === null && gathered >= 4) needed = 4 + Buffer.concat(parts).readUIntBE(1, 3)
    if (needed !== null && needed > longestClientHello) return null
    if (needed !== null && gathered >= needed) return Buffer.concat(parts).subarray(4, needed)
    if (part.length < length) return 'more'
    at += 5 + length
  }
  return null
}

function parseMessage(message: Buffer): ClientHello | null {
  let at = 2 + 32
  at += 1 + message.readUInt8(at)
  at += 2 + message.readUInt16BE(at)
  at += 1 + message.readUInt8(at)
  // Before TLS 1.2 a ClientHello could end here.
  if (at === message.length) return { serverName: null, hidesName: false }
  const end = at + 2 + message.readUInt16BE(at)
  if (end !== message.length) return null
  at += 2
  const hello: ClientHello = { serverName: null, hidesName: false }
  const seen = new Set<number>()
  while (at < end) {
    const type = message.readUInt16BE(at)
    const length = message.readUInt16BE(at + 2)
    at += 4
    if (at + length > end || seen.has(type)) return null
    seen.add(type)
    if (type === serverNameExtension) hello.serverName = readServerName(message.subarray(at, at + length))
    if (type === encryptedClientHello) hello.hidesName = true
    at += length
  }
  return hello
}

/** A list that in practice, and by its specification, holds one host name; anything else is malformed. */
function readServerName(extension: Buffer): string {
  const listLength = extension.readUInt16BE(0)
  const type = extension.readUInt8(2)
  const length = extension.readUInt16BE(3)
  if (type !== 0 || length === 0 || listLength !== length + 3 || extension.length !== length + 5) {
    throw new RangeError('not one host name')
  }
  return extension.toString('latin1', 5)
}
