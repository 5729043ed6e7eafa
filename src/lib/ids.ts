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
