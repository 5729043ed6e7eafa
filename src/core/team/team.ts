import { createHash, timingSafeEqual } from 'node:crypto'
import { randomHex } from '../../lib/ids.ts'
import type { Person, Role } from '../person/person.ts'

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
} & KeyGrant & {
    /** The client's address at the last use. */
    lastUsedFrom: string | null
  }

/** What a key allows, and for whom. */
export type KeyGrant = {
  /** The most that the key allows. A person's key allows no more than the person's role in the team. */
  role: Role
  /** Whose the key is. Null: it is for a service, and outlives those who work in the team. */
  personID: string | null
  /** Who made it, for people to read. Null: unknown. */
  madeBy: string | null
  /** Null: it never ends by itself. */
  expiresAt: number | null
}

/** The grant of every key that was made before keys had one. */
export const fullGrant: KeyGrant = { role: 'owner', personID: null, madeBy: null, expiresAt: null }

/** What a store knows of a credential: its key, its team and its person, with the role that the person has in the team now. */
export type FoundKey = {
  key: ApiKey
  hash: string
  team: Team
  person: Person | null
  /** Null: the person is not a member, or the key is for a service. */
  memberRole: Role | null
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

/** Who makes a request, in which team, and what they may do there. */
export type Caller = {
  team: Team
  role: Role
  /** Null: a service, or the admin token. */
  person: Person | null
  credential: Credential
}

type Credential = {
  kind: 'api key' | 'access token' | 'admin token' | 'session'
  id: string | null
  /** When it ends by itself; a key that is made with it ends no later. */
  expiresAt: number | null
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
const hashSecret = (secret: string): string => createHash('sha256').update(secret).digest('hex')

/**
 * The hash of a key that does not allow everything. A Warren that knows no roles looks for the plain hash, and so rejects
 * what it could not limit.
 */
const hashOfLimited = (secret: string): string => hashSecret(`limited ${secret}`)

const isFull = ({ role, personID, expiresAt }: KeyGrant): boolean =>
  role === 'owner' && personID === null && expiresAt === null

export const hashFor = (grant: KeyGrant, secret: string): string =>
  isFull(grant) ? hashSecret(secret) : hashOfLimited(secret)

/** The hashes under which a secret may be stored. */
export const hashesOf = (secret: string): [string, string] => [hashSecret(secret), hashOfLimited(secret)]

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
