/** The parts of DNS messages (RFC 1035, 6891) that the gate reads and writes. Every field is validated. */

export const recordTypes = { A: 1, AAAA: 28, OPT: 41, SVCB: 64, HTTPS: 65, ANY: 255 } as const
export const resultCodes = { ok: 0, serverFailed: 2, noSuchName: 3, refused: 5 } as const

export type Question = {
  id: number
  /** In lower case, without a final dot; null if a label has characters that no host name has. */
  name: string | null
  type: number
  isInternet: boolean
  /** The question in wire form, with the client's spelling. */
  wire: Buffer
  wantsRecursion: boolean
  /** The largest UDP answer that the client accepts. */
  maxBytes: number
  hasExtensions: boolean
}

const headBytes = 12
const internetClass = 1
const plainBytes = 512
/** Fits into the packets of every network. */
const maxUdpBytes = 1232
const responseBit = 0x8000
const truncatedBit = 0x0200
const recursionBit = 0x0100
const recursionOffered = 0x0080
const opcodeBits = 0x7800

/** Null if the message is not a plain question; such a message is not answered. */
export function readQuestion(message: Buffer): Question | null {
  if (message.length < headBytes + 5) return null
  const flags = message.readUInt16BE(2)
  if (flags & (responseBit | opcodeBits | truncatedBit)) return null
  const [questions, answers, authorities, additions] = [4, 6, 8, 10].map((at) => message.readUInt16BE(at))
  if (questions !== 1 || answers !== 0 || authorities !== 0 || additions! > 1) return null
  const read = readName(message, headBytes)
  if (!read || read.end + 4 > message.length) return null
  const end = read.end + 4
  const offered = additions === 1 ? extensionBytes(message, end) : null
  return {
    id: message.readUInt16BE(0),
    name: read.name,
    type: message.readUInt16BE(read.end),
    isInternet: message.readUInt16BE(read.end + 2) === internetClass,
    wire: message.subarray(headBytes, end),
    wantsRecursion: (flags & recursionBit) !== 0,
    maxBytes: Math.min(Math.max(offered ?? plainBytes, plainBytes), maxUdpBytes),
    hasExtensions: offered !== null,
  }
}

/** Writes the client's question under the gate's own ID, without other data from the client. */
export function writeQuestion(question: Question, id: number): Buffer {
  const head = header(id, recursionBit, question.hasExtensions ? 1 : 0)
  return Buffer.concat([head, question.wire, ...(question.hasExtensions ? [extensions] : [])])
}

/** An answer without records. */
export function writeAnswer(question: Question, resultCode: number, truncated = false): Buffer {
  const flags = responseBit | recursionOffered | (question.wantsRecursion ? recursionBit : 0) | resultCode
  const head = header(question.id, flags | (truncated ? truncatedBit : 0), question.hasExtensions ? 1 : 0)
  return Buffer.concat([head, question.wire, ...(question.hasExtensions ? [extensions] : [])])
}

/** True if a message answers the question that was sent under this ID. */
export function answersQuestion(message: Buffer, question: Question, id: number): boolean {
  const { wire } = question
  if (message.length < headBytes + wire.length) return false
  const flags = message.readUInt16BE(2)
  if (message.readUInt16BE(0) !== id || !(flags & responseBit) || flags & opcodeBits) return false
  if (message.readUInt16BE(4) !== 1) return false
  // Length bytes are below 64, so lowercasing changes only letters; servers may change their case.
  const answered = message.toString('latin1', headBytes, headBytes + wire.length)
  return answered.toLowerCase() === wire.toString('latin1').toLowerCase()
}

export const isTruncated = (message: Buffer): boolean => (message.readUInt16BE(2) & truncatedBit) !== 0

/** The answer with the client's ID and spelling. */
export function readdress(message: Buffer, question: Question): Buffer {
  message.writeUInt16BE(question.id, 0)
  question.wire.copy(message, headBytes)
  return message
}

function header(id: number, flags: number, additions: number): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUInt16BE(id, 0)
  head.writeUInt16BE(flags, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(additions, 10)
  return head
}

/** Tells the accepted size, and nothing else. */
const extensions = Buffer.from([0, 0, recordTypes.OPT, maxUdpBytes >> 8, maxUdpBytes & 255, 0, 0, 0, 0, 0, 0])

function extensionBytes(message: Buffer, at: number): number | null {
  const isExtension = message.length >= at + 11 && message[at] === 0
  return isExtension && message.readUInt16BE(at + 1) === recordTypes.OPT ? message.readUInt16BE(at + 3) : null
}

/** A question's name is complete: there is nothing before it that a pointer could refer to. */
function readName(message: Buffer, start: number): { name: string | null; end: number } | null {
  const labels: string[] = []
  let at = start
  for (;;) {
    const length = message[at]
    if (length === undefined || length > 63 || at - start > 254) return null
    at += 1
    if (length === 0) break
    if (at + length > message.length) return null
    labels.push(message.toString('latin1', at, at + length).toLowerCase())
    at += length
  }
  const isPlain = labels.every((label) => /^[a-z0-9_-]+$/.test(label))
  return { name: isPlain ? labels.join('.') : null, end: at }
}
