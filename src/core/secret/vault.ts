/**
 * Seals texts with AES-256-GCM. The owner of a text is part of the authenticated data, so a sealed text opens
 * only in its own row: whoever can write to the database can destroy a text, but cannot move one to another
 * row.
 */
import { createCipheriv, createDecipheriv, createHash } from 'node:crypto'
import { AppError } from '../../lib/app-error.ts'
import { randomHex } from '../../lib/ids.ts'

/** A sealed text, and the ID of the key that opens it. */
export type SealedValue = { keyID: string; sealed: string }

/** The owner of a sealed text. */
export type SecretOwner = {
  /** Unique among all places; the first part names the kind of place. */
  identity: readonly (string | number)[]
  /** For error messages: the sealed thing, and what to do if both the old key and a backup are missing. */
  name: string
  remedy: string
}

const algorithm = 'aes-256-gcm'
const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16

export class SecretVault {
  readonly #key: Buffer
  /** Identifies the key without revealing anything of it. */
  readonly keyID: string

  /** The key consists of 64 hexadecimal digits. */
  constructor(key: string) {
    this.#key = Buffer.from(key, 'hex')
    if (this.#key.length !== keyBytes) {
      throw new AppError('internal', `A key for secrets must have ${keyBytes * 2} hexadecimal digits`)
    }
    this.keyID = createHash('sha256')
      .update('id of a key for secrets')
      .update(this.#key)
      .digest('hex')
      .slice(0, 16)
  }

  seal({ identity }: SecretOwner, value: string): SealedValue {
    const nonce = Buffer.from(randomHex(nonceBytes), 'hex')
    const cipher = createCipheriv(algorithm, this.#key, nonce, { authTagLength: tagBytes })
    cipher.setAAD(bytesOf(identity))
    const text = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
    return { keyID: this.keyID, sealed: Buffer.concat([nonce, cipher.getAuthTag(), text]).toString('base64') }
  }

  open({ identity, name, remedy }: SecretOwner, { keyID, sealed }: SealedValue): string {
    if (keyID !== this.keyID) {
      throw new AppError(
        'internal',
        `${name} was sealed with the key ${keyID}, and this Warren has the key ${this.keyID}: restore the ` +
          `secret-key.json of that time, or ${remedy}`,
      )
    }
    try {
      const bytes = Buffer.from(sealed, 'base64')
      const nonce = bytes.subarray(0, nonceBytes)
      const decipher = createDecipheriv(algorithm, this.#key, nonce, { authTagLength: tagBytes })
      decipher.setAAD(bytesOf(identity))
      decipher.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
      const text = decipher.update(bytes.subarray(nonceBytes + tagBytes))
      return Buffer.concat([text, decipher.final()]).toString('utf8')
    } catch (cause) {
      throw new AppError(
        'internal',
        `${name} was changed in the database by something other than Warren: restore the database from a backup, or ${remedy}`,
        { cause },
      )
    }
  }
}

const bytesOf = (identity: SecretOwner['identity']): Buffer => Buffer.from(JSON.stringify(identity))
