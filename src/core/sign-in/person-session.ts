/** A person's stay in one browser: a row on the server, opened by a token of which only the hash is stored. */
import { createHash } from 'node:crypto'
import { randomHex } from '../../lib/ids.ts'

export type PersonSession = {
  sessionID: string
  personID: string
  createdAt: number
  lastUsedAt: number
  /** When it ends however much it is used. */
  expiresAt: number
  /** The browser that signed in, as it described itself; null if it did not. */
  userAgent: string | null
  /** From where it signed in. */
  address: string | null
}

const tokenForm = /^wrs_[0-9a-f]{64}$/

export const newSessionToken = (): string => `wrs_${randomHex(32)}`
export const isSessionTokenShaped = (token: string): boolean => tokenForm.test(token)

/** The form in which the store knows tokens of sessions and secrets of sign-ins. */
export const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('hex')
