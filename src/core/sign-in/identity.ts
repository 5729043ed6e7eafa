/** Reads a person's name, e-mail address and groups from what a provider says. Everything in it may be of any type and length. */
import { AppError } from '../../lib/app-error.ts'

export type IdentitySettings = {
  claims: { email: string; name: string; groups: string }
  /** Whether an address counts as verified if the provider does not say whether it is. */
  trustsEmail: boolean
  /** Of addresses that may sign in, in lower case; none: all. */
  emailDomains: readonly string[]
}

type VouchedIdentity = {
  /** Null unless it is verified. */
  email: string | null
  name: string
  groups: readonly string[]
}

const maxText = 200
const maxGroups = 1000
/** One `@`, and nothing that could make two addresses look the same. */
const addressForm = /^[^\s@<>"'\\,;:()[\]]{1,64}@([a-z0-9-]+(?:\.[a-z0-9-]+)*)$/

type Claims = Readonly<Record<string, unknown>>

export function identityOf(subject: string, claims: Claims, settings: IdentitySettings): VouchedIdentity {
  const email = verifiedEmail(claims, settings)
  requireDomain(email, settings.emailDomains)
  const name = textOf(claimAt(claims, settings.claims.name)) ?? email ?? subject.slice(0, maxText)
  return { email, name, groups: groupsOf(claimAt(claims, settings.claims.groups)) }
}

/** The claim with this name, or on this path, such as `realm_access.roles`. */
function claimAt(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  let found: unknown = claims
  for (const part of name.split('.')) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, part)) return undefined
    found = (found as Claims)[part]
  }
  return found
}

function verifiedEmail(claims: Claims, { claims: names, trustsEmail }: IdentitySettings): string | null {
  const given = claimAt(claims, names.email)
  if (typeof given !== 'string' || given.length > maxText) return null
  const email = given.toLowerCase()
  if (!addressForm.test(email)) return null
  const said = claims.email_verified
  // Some providers write the flag as a text.
  const isVerified = said === undefined ? trustsEmail : said === true || said === 'true'
  return isVerified ? email : null
}

function requireDomain(email: string | null, domains: readonly string[]): void {
  if (domains.length === 0) return
  if (email === null) {
    throw new AppError(
      'permission_denied',
      'The provider does not say that your e-mail address is verified, and this Warren asks for one (WARREN_OIDC_DOMAINS).',
    )
  }
  if (domains.includes(email.slice(email.indexOf('@') + 1))) return
  throw new AppError(
    'permission_denied',
    `${email} is in none of the domains that may sign in here (WARREN_OIDC_DOMAINS).`,
  )
}

function groupsOf(claim: unknown): string[] {
  const all = Array.isArray(claim) ? claim : [claim]
  return all.filter((group) => typeof group === 'string').slice(0, maxGroups)
}

function textOf(claim: unknown): string | undefined {
  if (typeof claim !== 'string') return undefined
  // Control characters would reach terminals and logs.
  const text = claim.replaceAll(/\p{C}/gu, '').trim().slice(0, maxText)
  return text === '' ? undefined : text
}
