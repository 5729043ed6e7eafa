/** The settings by which people sign in, and what they must be together. */
import { isIP } from 'node:net'
import { type GroupRule, parseGroupRules } from '../../core/sign-in/group-rules.ts'
import { AppError } from '../../lib/app-error.ts'
import * as kind from './settings.ts'
import { setting } from './settings.ts'

const claim = {
  unit: '',
  allowed: 'the name of a claim, such as email, or a path such as realm_access.roles',
  parse: (text: string) => (/^[\w:/.-]{1,100}$/.test(text) ? text : undefined),
}

const groupRules = {
  unit: '',
  allowed:
    'GROUP=TEAM:ROLE or GROUP=operator, several separated by semicolons; ROLE is owner, member or viewer',
  parse: (text: string): readonly GroupRule[] | undefined => parseGroupRules(text),
}

const emailDomains = {
  unit: '',
  allowed: 'domains separated by commas, such as example.com,example.org',
  parse(text: string): readonly string[] | undefined {
    const domains = kind.list.parse(text)!.map((domain) => domain.toLowerCase())
    return domains.every((domain) => /^[a-z0-9-]+(\.[a-z0-9-]+)+$/.test(domain)) ? domains : undefined
  },
}

const label = {
  unit: '',
  allowed: 'a short text without quotation marks and markup',
  parse: (text: string) => (/^[^"'&<>\p{C}]{1,60}$/u.test(text) ? text : undefined),
}

const webOrigin = {
  unit: '',
  allowed: 'a URL without a path, such as https://warren.example.com',
  parse(text: string) {
    const url = URL.parse(text)
    return url && /^https?:$/.test(url.protocol) && text.replace(/\/$/, '') === url.origin
      ? url.origin
      : undefined
  },
}

export const signInSchema = {
  oidcIssuer: setting(
    'WARREN_OIDC_ISSUER',
    '',
    'Provider of OpenID Connect with which people sign in, exactly as it names itself; unset: there are only keys and the admin token.',
    kind.optional(kind.httpUrl),
  ),
  oidcClientID: setting(
    'WARREN_OIDC_CLIENT_ID',
    '',
    'Name under which the provider knows this Warren.',
    kind.optional(kind.text),
  ),
  oidcClientSecret: {
    ...setting(
      'WARREN_OIDC_CLIENT_SECRET',
      '',
      'Secret that the provider gave this Warren; never shown.',
      kind.optional(kind.text),
    ),
    isSecret: true as const,
  },
  oidcLabel: setting(
    'WARREN_OIDC_LABEL',
    '',
    'What the button of the sign-in page calls the provider; unset: the host of the issuer.',
    kind.optional(label),
  ),
  oidcGroups: setting(
    'WARREN_OIDC_GROUPS',
    '',
    'Teams and roles that groups of the provider stand for, such as developers=acme:member;platform=operator; the group * is everybody who signs in.',
    groupRules,
  ),
  oidcDomains: setting(
    'WARREN_OIDC_DOMAINS',
    '',
    'Domains of e-mail addresses that may sign in; unset: all that the provider lets in.',
    emailDomains,
  ),
  oidcTrustEmail: setting(
    'WARREN_OIDC_TRUST_EMAIL',
    'no',
    'Whether an e-mail address counts if the provider does not say that it is verified; never if it says that it is not.',
    kind.oneOf('no', 'yes'),
  ),
  oidcEmailClaim: setting('WARREN_OIDC_EMAIL_CLAIM', 'email', 'Claim with the e-mail address.', claim),
  oidcNameClaim: setting('WARREN_OIDC_NAME_CLAIM', 'name', 'Claim with the name to show.', claim),
  oidcGroupsClaim: setting('WARREN_OIDC_GROUPS_CLAIM', 'groups', 'Claim with the groups.', claim),
  oidcScopes: setting(
    'WARREN_OIDC_SCOPES',
    '',
    'Scopes to ask the provider for, separated by commas; unset: openid, profile and email, and groups if the provider offers it.',
    kind.list,
  ),
  publicURL: setting(
    'WARREN_PUBLIC_URL',
    '',
    'URL at which browsers reach the dashboard, for the way back from the provider; unset: https://api.DOMAIN, or http://localhost and the port.',
    kind.optional(webOrigin),
  ),
  sessionIdleMinutes: setting(
    'WARREN_SESSION_IDLE_MINUTES',
    '120',
    'Time without a request after which a session of a person ends.',
    kind.wholeNumber(1, 525_600, 'minutes'),
  ),
  sessionHours: setting(
    'WARREN_SESSION_HOURS',
    '24',
    'Time after which a session of a person ends however much it is used; groups are read anew at the next sign-in.',
    kind.wholeNumber(1, 8760, 'hours'),
  ),
} as const

type Given = {
  oidcIssuer: string | null
  oidcClientID: string | null
  oidcClientSecret: string | null
  oidcGroups: readonly GroupRule[]
  oidcDomains: readonly string[]
  oidcScopes: readonly string[]
  publicURL: string | null
  domain: string | null
  port: number
}

export function checkSignIn(config: Given): void {
  const refuse = (message: string) => new AppError('invalid_argument', message)
  const { oidcIssuer: issuer, oidcClientID, oidcClientSecret, oidcGroups, oidcDomains, oidcScopes } = config
  if (issuer === null) {
    const isAnySet =
      oidcClientID !== null || oidcClientSecret !== null || oidcGroups.length + oidcDomains.length > 0
    if (isAnySet)
      throw refuse(
        'Settings that begin with WARREN_OIDC_ need WARREN_OIDC_ISSUER: the provider they are for.',
      )
    return
  }
  if (oidcClientID === null || oidcClientSecret === null) {
    throw refuse(
      'WARREN_OIDC_ISSUER needs WARREN_OIDC_CLIENT_ID and WARREN_OIDC_CLIENT_SECRET: the provider gives you both.',
    )
  }
  if (!isSafe(issuer)) {
    throw refuse(
      'WARREN_OIDC_ISSUER must begin with https://, except for a provider on this machine (localhost): the client secret travels to it.',
    )
  }
  const origin = publicOrigin(config)
  if (!isSafe(origin)) {
    throw refuse(
      `People sign in at ${origin}, but that must begin with https://, except on localhost: set WARREN_PUBLIC_URL, and TLS.`,
    )
  }
  if (oidcScopes.length > 0 && !oidcScopes.includes('openid')) {
    throw refuse('WARREN_OIDC_SCOPES must contain openid: without it a provider vouches for nobody.')
  }
}

/** The origin of the dashboard, for browsers. */
export function publicOrigin({
  publicURL,
  domain,
  port,
}: Pick<Given, 'publicURL' | 'domain' | 'port'>): string {
  if (publicURL !== null) return publicURL
  return new URL(domain === null ? `http://localhost:${port}` : `https://api.${domain}`).origin
}

function isSafe(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  const isLoopback =
    hostname === 'localhost' || hostname === '[::1]' || (isIP(hostname) === 4 && hostname.startsWith('127.'))
  return protocol === 'https:' || isLoopback
}
