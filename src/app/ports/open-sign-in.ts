/** The parts by which people sign in, if the settings name a provider. Opens no connection: the provider is asked when somebody signs in. */
import type { ApiSignIn } from '../../api/context.ts'
import { SessionCookies } from '../../api/session-cookie.ts'
import type { SecretVault } from '../../core/secret/vault.ts'
import { SessionService } from '../../core/sign-in/sessions.ts'
import { SignIn } from '../../core/sign-in/sign-in.ts'
import { OidcProvider } from '../../identity/oidc-provider.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { Stores } from '../../store/stores.ts'
import type { Config } from '../config/config.ts'
import { publicOrigin } from '../config/sign-in-settings.ts'

type SignInPorts = {
  stores: Pick<Stores, 'people' | 'teams' | 'sessions'>
  vault: SecretVault
  clock: Clock
  log: Log
}

export function openSignIn(
  config: Config,
  { stores, vault, clock, log }: SignInPorts,
): ApiSignIn | undefined {
  const { oidcIssuer: issuer, oidcClientID: clientID, oidcClientSecret: clientSecret } = config
  if (issuer === null || clientID === null || clientSecret === null) return undefined
  const origin = publicOrigin(config)
  const claims = {
    email: config.oidcEmailClaim,
    name: config.oidcNameClaim,
    groups: config.oidcGroupsClaim,
  }
  const trustsEmail = config.oidcTrustEmail === 'yes'
  const provider = new OidcProvider(
    {
      issuer,
      clientID,
      clientSecret,
      scopes: config.oidcScopes.length > 0 ? config.oidcScopes : undefined,
      callbackURL: `${origin}/sign-in/callback`,
      afterLogoutURL: `${origin}/dashboard`,
      wantedClaims: [...Object.values(claims), ...(trustsEmail ? [] : ['email_verified'])],
    },
    clock,
  )
  const limits = { idleMs: config.sessionIdleMinutes * 60_000, lifetimeMs: config.sessionHours * 3_600_000 }
  const sessions = new SessionService({ sessions: stores.sessions, clock, limits })
  const settings = {
    claims,
    trustsEmail,
    emailDomains: config.oidcDomains,
    rules: config.oidcGroups,
  }
  const service = new SignIn({
    provider,
    people: stores.people,
    teams: stores.teams,
    sessions,
    vault,
    clock,
    log,
    settings,
  })
  const label = config.oidcLabel ?? new URL(issuer).host
  return { service, sessions, cookies: new SessionCookies(origin), label }
}
