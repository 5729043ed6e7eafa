import { createHash, timingSafeEqual } from 'node:crypto'
import { randomHex } from '../../lib/ids.ts'

export type TeamLimits = {
  /** Sandboxes that are neither ended nor paused. */
  maxSandboxes: number
  /** Sums over the sandboxes that are neither ended nor paused. */
  maxCPU: number
  maxMemoryMB: number
  /** Maximum duration of one run of a sandbox. */
  maxLifetimeHours: number
  /** Sum over the sandboxes that are not ended and not paused. */
  maxGPUs: number
}

export type Team = {
  teamID: string
  /** The namespace of the team's templates: `[a-z0-9-_]+`. */
  slug: string
  name: string
  limits: TeamLimits
  /** Its clients may be older than access tokens. */
  olderClients: boolean
  createdAt: number
}

export type ApiKey = {
  keyID: string
  teamID: string
  name: string
  /** First 2 and last 4 characters of the hex part, so that a person can tell keys apart. */
  maskPrefix: string
  maskSuffix: string
  createdAt: number
  lastUsedAt: number | null
  revokedAt: number | null
}

/**
 * A credential with which a person signs in on the command line. It opens the API like a key of its team, and
 * has an API key of its own, which is revoked with it.
 */
export type AccessToken = {
  tokenID: string
  teamID: string
  name: string
  maskPrefix: string
  maskSuffix: string
  createdAt: number
  revokedAt: number | null
  /** The token's own API key. */
  keyID: string
}

/** The team that makes a request, and the credential it used. */
export type Caller = {
  team: Team
  credential: { kind: 'api key' | 'access token' | 'admin token'; id: string | null }
}

export const defaultTeamLimits: TeamLimits = {
  maxSandboxes: 100,
  maxCPU: 400,
  maxMemoryMB: 400 * 1024,
  maxLifetimeHours: 24,
  maxGPUs: 8,
}

const keyPrefix = 'e2b_'
const tokenPrefix = 'sk_e2b_'
const keyForm = /^e2b_[0-9a-f]{40}$/
const tokenForm = /^sk_e2b_[0-9a-f]{40}$/

export const newApiKey = (): string => keyPrefix + randomHex(20)
export const newAccessToken = (): string => tokenPrefix + randomHex(20)
export const isApiKeyShaped = (key: string): boolean => keyForm.test(key)
export const isAccessTokenShaped = (token: string): boolean => tokenForm.test(token)
/** The form in which the data folder stores the admin token. */
export const isAdminTokenShaped = (token: string): boolean => /^[0-9a-f]{64}$/.test(token)
export const hashSecret = (secret: string): string => createHash('sha256').update(secret).digest('hex')

/**
 * Derives the API key of an access token. Only hashes are stored, so the key is computed from the token that
 * a caller shows; the token cannot be computed from the key.
 */
export function apiKeyOf(accessToken: string): string {
  return keyPrefix + hashSecret(`api key of ${accessToken}`).slice(0, 40)
}

export function maskOf(secret: string): { maskPrefix: string; maskSuffix: string } {
  const value = secret.slice(secret.lastIndexOf('_') + 1)
  return { maskPrefix: value.slice(0, 2), maskSuffix: value.slice(-4) }
}

export function sameSecret(a: string, b: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(hash(a), hash(b))
}
