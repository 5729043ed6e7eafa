import { createHash, timingSafeEqual } from 'node:crypto'
import { randomHex } from '../../lib/ids.ts'

export type TeamLimits = {
  /** Sandboxes that are not ended and not paused. */
  maxSandboxes: number
  /** Sums over the sandboxes that are not ended and not paused. */
  maxCPU: number
  maxMemoryMB: number
  /** How long one run of a sandbox may last. */
  maxLifetimeHours: number
}

export type Team = {
  teamID: string
  /** The namespace of the team's templates: `[a-z0-9-_]+`. */
  slug: string
  name: string
  limits: TeamLimits
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

export const defaultTeamLimits: TeamLimits = {
  maxSandboxes: 100,
  maxCPU: 400,
  maxMemoryMB: 400 * 1024,
  maxLifetimeHours: 24,
}

const keyPrefix = 'e2b_'
const keyForm = /^e2b_[0-9a-f]{40}$/

export const newApiKey = (): string => keyPrefix + randomHex(20)
export const isApiKeyShaped = (key: string): boolean => keyForm.test(key)
export const hashApiKey = (key: string): string => createHash('sha256').update(key).digest('hex')

export function maskOf(key: string): { maskPrefix: string; maskSuffix: string } {
  const value = key.slice(keyPrefix.length)
  return { maskPrefix: value.slice(0, 2), maskSuffix: value.slice(-4) }
}

export function sameSecret(a: string, b: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(hash(a), hash(b))
}
