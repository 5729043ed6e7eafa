import { createHash } from 'node:crypto'

/** A signature of version 1 is SHA-256 over the secret and the sent body, in base64url without padding. */
export function signatureOf(secret: string, body: string): string {
  return createHash('sha256').update(secret).update(body).digest('base64url')
}
