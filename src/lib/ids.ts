/** The only source of randomness. Ids carry at least 100 bits, so none can be guessed. */
import { randomBytes, randomInt, randomUUID } from 'node:crypto'

const lowercaseAlphanumerics = 'abcdefghijklmnopqrstuvwxyz0123456789'

function randomText(length: number): string {
  let text = ''
  for (let i = 0; i < length; i++) text += lowercaseAlphanumerics[randomInt(lowercaseAlphanumerics.length)]
  return text
}

/** `i` and 20 characters, as the wire wants it. */
export const newSandboxID = (): string => `i${randomText(20)}`
export const newTemplateID = (): string => randomText(20)
export const newUUID = (): string => randomUUID()
export const randomHex = (bytes: number): string => randomBytes(bytes).toString('hex')

const base32Digits = '0123456789abcdefghjkmnpqrstvwxyz'

/** `sec_` and a random UUID as 26 digits of base 32, the form of a TypeID. */
export function newSecretID(): string {
  let rest = BigInt(`0x${randomUUID().replaceAll('-', '')}`)
  let digits = ''
  for (let at = 0; at < 26; at++, rest >>= 5n) digits = base32Digits[Number(rest & 31n)] + digits
  return `sec_${digits}`
}
