/** The little of ASN.1's DER that certificates are written in. */
export type Der = Buffer

function value(tag: number, ...parts: Der[]): Der {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.from([tag]), lengthOf(content.length), content])
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.from([length])
  const hex = length.toString(16)
  const bytes = Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex')
  return Buffer.concat([Buffer.from([0x80 | bytes.length]), bytes])
}

export const sequence = (...parts: Der[]): Der => value(0x30, ...parts)
export const set = (...parts: Der[]): Der => value(0x31, ...parts)
export const octets = (...parts: Der[]): Der => value(0x04, ...parts)
export const utf8 = (text: string): Der => value(0x0c, Buffer.from(text))
export const yes: Der = value(0x01, Buffer.from([0xff]))
/** `unusedBits`: how many bits at the end of the last byte do not count. */
export const bits = (bytes: Buffer, unusedBits = 0): Der => value(0x03, Buffer.from([unusedBits]), bytes)
/** `[tag]` around whole values. */
export const tagged = (tag: number, ...parts: Der[]): Der => value(0xa0 | tag, ...parts)
/** The value under the context tag `[tag]` in place of its own tag. */
export const implicit = (tag: number, bytes: Buffer): Der => value(0x80 | tag, bytes)

/** Big-endian, not negative. */
export function integer(bytes: Buffer): Der {
  return value(0x02, (bytes[0] ?? 0) & 0x80 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes)
}

export function objectID(dotted: string): Der {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const bytes = [first * 40 + second]
  for (const part of rest) {
    const groups = [part & 0x7f]
    for (let left = part >>> 7; left > 0; left >>>= 7) groups.unshift((left & 0x7f) | 0x80)
    bytes.push(...groups)
  }
  return value(0x06, Buffer.from(bytes))
}

/** Years from 2050 on have four digits, and their own tag. */
export function time(ms: number): Der {
  const digits = `${new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '')}`
  return digits < '2050' ? value(0x17, Buffer.from(digits.slice(2))) : value(0x18, Buffer.from(digits))
}

/** The values inside one value, each with its own tag and length. */
export function partsOf(der: Der): Der[] {
  const parts: Der[] = []
  for (let at = headerLength(der, 0); at < der.length; ) {
    const end = at + headerLength(der, at) + contentLength(der, at)
    parts.push(der.subarray(at, end))
    at = end
  }
  return parts
}

/** The subject of a certificate, as it stands there. One of version 1 does not begin with its version. */
export function subjectOf(certificate: Der): Der {
  const fields = partsOf(partsOf(certificate)[0]!)
  return fields[0]![0] === 0xa0 ? fields[5]! : fields[4]!
}

/** The content of a value, without its tag and length. */
export const contentOf = (der: Der): Buffer => der.subarray(headerLength(der, 0))

function headerLength(der: Der, at: number): number {
  const length = der[at + 1]!
  return length < 0x80 ? 2 : 2 + (length & 0x7f)
}

function contentLength(der: Der, at: number): number {
  const length = der[at + 1]!
  return length < 0x80 ? length : der.readUIntBE(at + 2, length & 0x7f)
}
