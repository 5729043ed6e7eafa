/**
 * The only source of randomness. Ids have at least 100 random bits, so nobody can guess one. Ids of requests are shorter,
 * because they give access to nothing.
 */

/** Loaded when first needed: it takes an agent several milliseconds, and few of them ever need it. */
let source = (count: number): Buffer => process.getBuiltinModule('node:crypto').randomBytes(count)

/** Makes every id come from this source until the returned function is called, so that a simulation can be repeated. */
export function replaceRandomSource(bytes: (count: number) => Buffer): () => void {
  const before = source
  source = bytes
  return () => {
    source = before
  }
}

/** The form of the ids that `newUUID` returns. */
export const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const lowercaseAlphanumerics = 'abcdefghijklmnopqrstuvwxyz0123456789'

/** Bytes from this value on are skipped: they would make some characters more likely than others. */
const firstUneven = 256 - (256 % lowercaseAlphanumerics.length)

function randomText(length: number): string {
  let text = ''
  while (text.length < length) {
    for (const byte of source(length - text.length)) {
      if (byte < firstUneven) text += lowercaseAlphanumerics[byte % lowercaseAlphanumerics.length]
    }
  }
  return text
}

/** Version 4 of RFC 9562. */
function randomUUID(): string {
  const bytes = Buffer.from(source(16))
  bytes[6] = (bytes[6]! & 0x0f) | 0x40
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

/** `i` and 20 characters, as the wire wants it. */
export const newSandboxID = (): string => `i${randomText(20)}`
export const newTemplateID = (): string => randomText(20)
export const newUUID = (): string => randomUUID()

/** Random bytes for ids of requests, made many at a time: every request takes some. */
let spare: { bytes: Buffer; at: number } | undefined
const requestIDBytes = 8

/** A request id is not secret. It is long enough that no two in a log are the same. */
export function newRequestID(): string {
  if (!spare || spare.at === spare.bytes.length) spare = { bytes: source(512 * requestIDBytes), at: 0 }
  const from = spare.at
  spare.at += requestIDBytes
  return spare.bytes.toString('hex', from, spare.at)
}

/** A whole number from 0 on, below `count`. */
export const randomBelow = (count: number): number => source(4).readUInt32BE() % count
export const randomHex = (bytes: number): string => source(bytes).toString('hex')

const base32Digits = '0123456789abcdefghjkmnpqrstvwxyz'

/** `sec_` and a random UUID as 26 digits of base 32, the form of a TypeID. */
export function newSecretID(): string {
  let rest = BigInt(`0x${randomUUID().replaceAll('-', '')}`)
  let digits = ''
  for (let at = 0; at < 26; at++, rest >>= 5n) digits = base32Digits[Number(rest & 31n)] + digits
  return `sec_${digits}`
}
