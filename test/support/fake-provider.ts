/** A provider of OpenID Connect on loopback, with knobs for everything that one could do wrong. */
import assert from 'node:assert/strict'
import { createHash, createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

type Json = Record<string, unknown>
type SigningKey = { kid: string; privateKey: KeyObject; publicKey: KeyObject }
type Code = { nonce: string; challenge: string; redirectURI: string; isUsed: boolean }

export const fakeClient = { id: 'warren', secret: 'a secret: with+signs/and %' }

const base64 = (value: Json): string => Buffer.from(JSON.stringify(value)).toString('base64url')
const nowS = (): number => Math.floor(Date.now() / 1000)

export class FakeProvider implements AsyncDisposable {
  /** Of the ID token, beyond those that every token has. Undefined removes a claim. */
  claims: Json = { email: 'ada@example.com', email_verified: true, name: 'Ada', groups: ['developers'] }
  userinfo: Json = {}
  metadata: Json = {}
  /** How ID tokens are made. */
  mint: (claims: Json) => string = (claims) => this.signed(claims)
  /** Codes may be redeemed again, which no provider should allow. */
  isForgetful = false
  /** Answers that come without a word, as those of a broken machine. */
  isBroken = false
  readonly requests: string[] = []
  #keys: SigningKey[] = [newKey()]
  readonly #codes = new Map<string, Code>()
  readonly #server = createServer((request, response) => void this.#answer(request, response))

  static async open(): Promise<FakeProvider> {
    const provider = new FakeProvider()
    provider.#server.listen(0, '127.0.0.1')
    await once(provider.#server, 'listening')
    return provider
  }

  get issuer(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** The keys of before are forgotten. */
  rotateKeys(): void {
    this.#keys = [newKey()]
  }

  /** What a person does at the provider: lets the browser return with a code. The answer is the path of its next request. */
  approve(loginURL: string): string {
    const url = new URL(loginURL)
    assert.equal(url.origin, this.issuer)
    const asked = url.searchParams
    assert.equal(asked.get('code_challenge_method'), 'S256')
    const code = `code${this.#codes.size}`
    this.#codes.set(code, {
      nonce: asked.get('nonce') ?? '',
      challenge: asked.get('code_challenge') ?? '',
      redirectURI: asked.get('redirect_uri') ?? '',
      isUsed: false,
    })
    const { pathname } = new URL(asked.get('redirect_uri')!)
    return `${pathname}?${new URLSearchParams({ code, state: asked.get('state') ?? '' })}`
  }

  signed(claims: Json, { kid, privateKey }: SigningKey = this.#keys[0]!): string {
    const body = `${base64({ alg: 'RS256', kid })}.${base64(claims)}`
    return `${body}.${sign('sha256', Buffer.from(body), privateKey).toString('base64url')}`
  }

  unsigned = (claims: Json): string => `${base64({ alg: 'none' })}.${base64(claims)}.`

  /** Signed with what everybody knows: the public key, as if it were a shared secret. */
  signedWithPublicKey = (claims: Json): string => {
    const { kid, publicKey } = this.#keys[0]!
    const body = `${base64({ alg: 'HS256', kid })}.${base64(claims)}`
    const secret = publicKey.export({ type: 'spki', format: 'pem' })
    return `${body}.${createHmac('sha256', secret).update(body).digest('base64url')}`
  }

  signedByStranger = (claims: Json): string => this.signed(claims, { ...newKey(), kid: this.#keys[0]!.kid })

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '').split('?')[0]!
    this.requests.push(path)
    if (this.isBroken) return void request.socket.destroy()
    // A browser gets here; nobody asks it for a password.
    if (path === '/authorize') {
      const back = new URL(new URL(request.url!, this.issuer).searchParams.get('redirect_uri')!)
      const location = new URL(this.approve(`${this.issuer}${request.url}`), back).href
      return void response.writeHead(302, { location }).end()
    }
    const [status, body] = await this.#bodyFor(path, request)
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

  async #bodyFor(path: string, request: IncomingMessage): Promise<[number, Json]> {
    const { issuer } = this
    switch (path) {
      case '/.well-known/openid-configuration':
        return [
          200,
          {
            issuer,
            authorization_endpoint: `${issuer}/authorize`,
            token_endpoint: `${issuer}/token`,
            userinfo_endpoint: `${issuer}/userinfo`,
            jwks_uri: `${issuer}/keys`,
            // Some providers offer this, and mean the client's secret.
            id_token_signing_alg_values_supported: ['RS256', 'HS256', 'none'],
            response_types_supported: ['code'],
            subject_types_supported: ['public'],
            ...this.metadata,
          },
        ]
      case '/keys':
        return [200, { keys: this.#keys.map(jwkOf) }]
      case '/token':
        return this.#redeem(request)
      case '/userinfo':
        return [200, { sub: this.claims.sub ?? 'ada', ...this.userinfo }]
      default:
        return [404, {}]
    }
  }

  async #redeem(request: IncomingMessage): Promise<[number, Json]> {
    const form = new URLSearchParams(await text(request))
    const [id, secret] = credentialsOf(request.headers.authorization, form)
    if (id !== fakeClient.id || secret !== fakeClient.secret) return [401, { error: 'invalid_client' }]
    const code = this.#codes.get(form.get('code') ?? '')
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url')
    const isRight =
      code &&
      (this.isForgetful || !code.isUsed) &&
      code.challenge === challenge &&
      code.redirectURI === form.get('redirect_uri')
    if (!isRight) return [400, { error: 'invalid_grant' }]
    code.isUsed = true
    const times = { iat: nowS(), exp: nowS() + 300 }
    const claims = {
      iss: this.issuer,
      sub: 'ada',
      aud: fakeClient.id,
      ...times,
      nonce: code.nonce,
      ...this.claims,
    }
    return [200, { access_token: 'access', token_type: 'Bearer', id_token: this.mint(claims) }]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

let keysMade = 0

function newKey(): SigningKey {
  keysMade++
  return { kid: `key${keysMade}`, ...generateKeyPairSync('rsa', { modulusLength: 2048 }) }
}

const jwkOf = ({ kid, publicKey }: SigningKey): Json => ({
  ...publicKey.export({ format: 'jwk' }),
  kid,
  use: 'sig',
})

/** Both parts of `Basic` are encoded as forms are (RFC 6749, 2.3.1). */
function credentialsOf(authorization: string | undefined, form: URLSearchParams): (string | null)[] {
  const [, encoded] = /^Basic (.+)$/.exec(authorization ?? '') ?? []
  if (encoded === undefined) return [form.get('client_id'), form.get('client_secret')]
  const [id = '', secret = ''] = Buffer.from(encoded, 'base64').toString().split(':')
  const decode = (part: string) => new URLSearchParams(`v=${part}`).get('v')
  return [decode(id), decode(secret)]
}
