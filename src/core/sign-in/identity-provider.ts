/** The port to whoever vouches for people: a provider of OpenID Connect. */

/** What this sign-in alone knows, so that nobody can finish it but the browser that began it. */
export type LoginAttempt = { state: string; nonce: string; verifier: string }

/** What the provider says of a person, checked to come from it, for us, for this attempt, and now. */
export type Vouched = { subject: string; claims: Readonly<Record<string, unknown>>; idToken: string }

export interface IdentityProvider {
  readonly issuer: string
  /** Where the browser goes to sign in. Rejects with `unavailable` if the provider does not answer. */
  loginURL(attempt: LoginAttempt): Promise<string>
  /**
   * Redeems what the browser brought back: the query of its request. Rejects with `unauthenticated` if anything is not as it
   * must be, and with `unavailable` if the provider does not answer.
   */
  redeem(query: string, attempt: LoginAttempt): Promise<Vouched>
  /** Where the browser goes to sign out at the provider as well; undefined if the provider has no such page. */
  logoutURL(idToken: string | undefined): Promise<string | undefined>
}
