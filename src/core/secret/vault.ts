/**
 * Seals values with AES-256-GCM. Team, id and version go in as authenticated data, so a sealed value opens only
 * in its own row: whoever can write to the database can destroy a secret, but put none in another's place.
 */
import { createCipheriv, createDecipheriv, createHash } from 'node:crypto'
import { AppError } from '../../lib/app-error.ts'
import { randomHex } from '../../lib/ids.ts'
import type { SealedValue, Secret } from './secret.ts'

type Place = Pick<Secret, 'teamID' | 'secretID' | 'currentVersion'>

const algorithm = 'aes-256-gcm'
const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16

export class SecretVault {
  readonly #key: Buffer
  /** Tells keys apart and gives nothing away of them. */
  readonly keyID: string

  /** The key is 64 hexadecimal digits. */
  constructor(key: string) {
    this.#key = Buffer.from(key, 'hex')
    if (this.#key.length !== keyBytes) {
      throw new AppError('internal', `A key for secrets has ${keyBytes * 2} hexadecimal digits`)
    }
    this.keyID = createHash('sha256')
      .update('id of a key for secrets')
      .update(this.#key)
      .digest('hex')
      .slice(0, 16)
  }

  seal(place: Place, value: string): SealedValue {
    const nonce = Buffer.from(randomHex(nonceBytes), 'hex')
    const cipher = createCipheriv(algorithm, this.#key, nonce, { authTagLength: tagBytes })
    cipher.setAAD(identityOf(place))
    const text = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
    return { keyID: this.keyID, sealed: Buffer.concat([nonce, cipher.getAuthTag(), text]).toString('base64') }
  }

  open(place: Place, { keyID, sealed }: SealedValue): string {
    if (keyID !== this.keyID) {
      throw new AppError(
        'internal',
        `The secret ${place.secretID} was sealed with the key ${keyID}, and this Warren has ${this.keyID}: put ` +
          'back the secret-key.json of that time, or give the secret a new value',
      )
    }
    try {
      const bytes = Buffer.from(sealed, 'base64')
      const nonce = bytes.subarray(0, nonceBytes)
      const decipher = createDecipheriv(algorithm, this.#key, nonce, { authTagLength: tagBytes })
      decipher.setAAD(identityOf(place))
      decipher.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
      const text = decipher.update(bytes.subarray(nonceBytes + tagBytes))
      return Buffer.concat([text, decipher.final()]).toString('utf8')
    } catch (cause) {
      throw new AppError(
        'internal',
        `The stored value of the secret ${place.secretID} was changed outside of Warren: restore the database ` +
          'from a backup, or give the secret a new value',
        { cause },
      )
    }
  }
}

const identityOf = ({ teamID, secretID, currentVersion }: Place): Buffer =>
  Buffer.from(JSON.stringify(['warren secret', teamID, secretID, currentVersion]))
