/**
 * A provider of OpenID Connect, by the code flow with PKCE. The provider's keys and endpoints are asked for when somebody signs in,
 * never at the start, so that Warren starts and serves without it. It knows no cookie and no row.
 */
import type * as OpenIDClient from 'openid-client'
import type { IdentityProvider, LoginAttempt, Vouched } from '../core/sign-in/identity-provider.ts'
import { AppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'

type OidcSettings = {
  issuer: string
  clientID: string
  clientSecret: string
  /** Undefined: openid, profile and e-mail, and groups if the provider offers that. */
  scopes: readonly string[] | undefined
  /** Where the provider sends browsers back to. */
  callbackURL: string
  afterLogoutURL: string
  /** Names of claims to look for at the userinfo endpoint if the ID token lacks them. */
  wantedClaims: readonly string[]
}

/** For each answer of the provider. */
const answerWithinS = 10
/** By how much the clocks of the provider and of this machine may differ. */
const clockToleranceS = 60
const keepMetadataMs = 5 * 60_000

type Library = typeof OpenIDClient

export class OidcProvider implements IdentityProvider {
  readonly issuer: string
  readonly #settings: OidcSettings
  readonly #clock: Clock
  #found: { metadata: Promise<OpenIDClient.ServerMetadata>; at: number } | undefined

  constructor(settings: OidcSettings, clock: Clock) {
    this.issuer = settings.issuer
    this.#settings = settings
    this.#clock = clock
  }

  async loginURL({ state, nonce, verifier }: LoginAttempt): Promise<string> {
    const library = await loadLibrary()
    const config = await this.#configure(library)
    const url = library.buildAuthorizationUrl(config, {
      redirect_uri: this.#settings.callbackURL,
      scope: this.#scopes(config.serverMetadata()).join(' '),
      state,
      nonce,
      code_challenge: await library.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    })
    return url.href
  }

  async redeem(query: string, { state, nonce, verifier }: LoginAttempt): Promise<Vouched> {
    const library = await loadLibrary()
    const config = await this.#configure(library)
    const returned = new URL(this.#settings.callbackURL)
    returned.search = query
    try {
      const tokens = await library.authorizationCodeGrant(config, returned, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      })
      const claims = tokens.claims()!
      const more = await this.#askMore(library, config, claims, tokens.access_token)
      return { subject: claims.sub, claims: { ...more, ...claims }, idToken: tokens.id_token! }
    } catch (error) {
      throw this.#explain(error)
    }
  }

  async logoutURL(idToken: string | undefined): Promise<string | undefined> {
    const library = await loadLibrary()
    const config = await this.#configure(library)
    if (config.serverMetadata().end_session_endpoint === undefined) return undefined
    return library.buildEndSessionUrl(config, {
      post_logout_redirect_uri: this.#settings.afterLogoutURL,
      ...(idToken !== undefined && { id_token_hint: idToken }),
    }).href
  }

  /** What the userinfo endpoint says of the same person beyond the ID token. */
  async #askMore(
    library: Library,
    config: OpenIDClient.Configuration,
    claims: OpenIDClient.IDToken,
    accessToken: string,
  ): Promise<Record<string, unknown>> {
    const lacks = this.#settings.wantedClaims.some((name) => !(name.split('.', 1)[0]! in claims))
    if (!lacks || config.serverMetadata().userinfo_endpoint === undefined) return {}
    const found: Record<string, unknown> = await library.fetchUserInfo(config, accessToken, claims.sub)
    // Whether an address is verified is said of that address only.
    if ('email' in claims && found.email !== claims.email) delete found.email_verified
    if ('email_verified' in claims && !('email' in claims)) delete found.email
    return found
  }

  #scopes({ scopes_supported: offered = [] }: OpenIDClient.ServerMetadata): readonly string[] {
    const asked = ['openid', 'profile', 'email', ...(offered.includes('groups') ? ['groups'] : [])]
    return this.#settings.scopes ?? asked
  }

  /** Made anew for each use: it loads the provider's keys when it needs them, so that it never sees those of yesterday. */
  async #configure(library: Library): Promise<OpenIDClient.Configuration> {
    const metadata = await this.#metadata(library)
    const { clientID, clientSecret } = this.#settings
    const authentication = authenticationFor(library, metadata, clientSecret)
    const client = { [library.clockTolerance]: clockToleranceS }
    const config = new library.Configuration({ ...metadata }, clientID, client, authentication)
    config.timeout = answerWithinS
    if (isPlain(this.issuer)) library.allowInsecureRequests(config)
    // Checks signatures also where TLS would do.
    library.enableNonRepudiationChecks(config)
    return config
  }

  #metadata(library: Library): Promise<OpenIDClient.ServerMetadata> {
    const now = this.#clock.now()
    if (this.#found && now - this.#found.at < keepMetadataMs) return this.#found.metadata
    const found = { metadata: this.#discover(library), at: now }
    this.#found = found
    found.metadata.catch(() => {
      if (this.#found === found) this.#found = undefined
    })
    return found.metadata
  }

  async #discover(library: Library): Promise<OpenIDClient.ServerMetadata> {
    try {
      const config = await library.discovery(
        new URL(this.issuer),
        this.#settings.clientID,
        undefined,
        library.None(),
        {
          timeout: answerWithinS,
          execute: isPlain(this.issuer) ? [library.allowInsecureRequests] : [],
        },
      )
      return config.serverMetadata()
    } catch (error) {
      throw new AppError('unavailable', this.#discoveryProblem(error), { cause: error })
    }
  }

  #discoveryProblem(error: unknown): string {
    return codeOf(error) === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED'
      ? `The server at ${this.issuer} says that it is another issuer: set WARREN_OIDC_ISSUER exactly to the issuer that it names.`
      : this.#unreachable()
  }

  #unreachable(): string {
    return (
      `The sign-in provider ${this.issuer} does not answer as it should. Who is signed in stays so; ` +
      'API keys and the admin token work without it. Try again later.'
    )
  }

  #explain(cause: unknown): AppError {
    const code = codeOf(cause)
    const answer = cause as { error?: string; status?: number }
    if (code === 'OAUTH_AUTHORIZATION_RESPONSE_ERROR') {
      const said = String(answer.error)
        .replaceAll(/[^\w.-]/g, '')
        .slice(0, 60)
      return new AppError('unauthenticated', `The provider did not sign you in: ${said}. Sign in again.`, {
        cause,
      })
    }
    if (answer.error === 'invalid_client' || answer.error === 'unauthorized_client') {
      const text = `The provider ${this.issuer} rejects this Warren: look at WARREN_OIDC_CLIENT_ID and WARREN_OIDC_CLIENT_SECRET.`
      return new AppError('unavailable', text, { cause })
    }
    if (
      code === 'OAUTH_TIMEOUT' ||
      code === 'OAUTH_ABORT' ||
      isNetworkFailure(cause) ||
      (answer.status ?? 0) >= 500
    )
      return new AppError('unavailable', this.#unreachable(), { cause })
    if (code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED') {
      const text =
        'The provider vouched for another time: its clock and that of this server differ, or it took too long. Sign in again.'
      return new AppError('unauthenticated', text, { cause })
    }
    return new AppError(
      'unauthenticated',
      'What the provider said could not be verified, or was used before. Sign in again; the log of Warren has the cause.',
      { cause },
    )
  }
}

/** The standard's default is `client_secret_basic`; both encode the secret as forms do. */
function authenticationFor(
  library: Library,
  { token_endpoint_auth_methods_supported: methods = ['client_secret_basic'] }: OpenIDClient.ServerMetadata,
  secret: string,
): OpenIDClient.ClientAuth {
  if (methods.includes('client_secret_basic')) return library.ClientSecretBasic(secret)
  if (methods.includes('client_secret_post')) return library.ClientSecretPost(secret)
  throw new AppError(
    'unavailable',
    'The sign-in provider accepts neither client_secret_basic nor client_secret_post, and Warren has nothing else.',
  )
}

const isPlain = (issuer: string): boolean => issuer.startsWith('http:')

const codeOf = (error: unknown): string | undefined => (error as { code?: string } | undefined)?.code

/** `fetch` says no more than that. */
const isNetworkFailure = (error: unknown): boolean =>
  error instanceof TypeError && error.message === 'fetch failed'

/** Loaded when somebody signs in. */
const loadLibrary = (): Promise<Library> => import('openid-client')
