/** What tests tell a real provider of OpenID Connect. */
export type ProviderOptions = {
  port: number
  client: { id: string; secret: string }
  callbackURL: string
  people: readonly { email: string; name: string; groups: readonly string[] }[]
}
