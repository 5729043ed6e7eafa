/** Authenticates to a registry: with nothing, a password, or a token that another server issues for one. */
import { AppError } from '../lib/app-error.ts'
import type { Login } from './credentials.ts'
import type { HttpClient } from './http-client.ts'
import { retriable } from './image-source.ts'

/** The identity for requests to a registry. Users cannot change the login of a mirror. */
export type Asker = { login?: Login; isMirror: boolean }

type Challenge = { scheme: string; values: Record<string, string> }

const largestAnswer = 1 << 20

/** The first challenge that can be met: one header may offer several. */
export function parseChallenge(header: string | undefined): Challenge | undefined {
  const found = [...(header ?? '').matchAll(/(?:^|,)\s*(bearer|basic)\b/gi)]
  const challenges = found.map((match, index) => ({
    scheme: match[1]!.toLowerCase(),
    values: valuesIn(header!.slice(match.index + match[0].length, found[index + 1]?.index)),
  }))
  return (
    challenges.find(({ scheme, values }) => scheme === 'bearer' && values.realm) ??
    challenges.find(({ scheme }) => scheme === 'basic')
  )
}

function valuesIn(text: string): Record<string, string> {
  const pairs = [...text.matchAll(/([a-z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/gi)]
  return Object.fromEntries(
    pairs.map(([, name, quoted, bare]) => [
      name!.toLowerCase(),
      quoted?.replace(/\\(.)/g, '$1') ?? bare ?? '',
    ]),
  )
}

const basicHeader = ({ username, password }: Login): string =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`

/** Returns the Authorization header for the challenge; undefined if there is no suitable login. */
export async function authorize(
  http: HttpClient,
  registry: URL,
  repository: string,
  { scheme, values }: Challenge,
  asker: Asker,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { login } = asker
  if (scheme === 'basic') return login && basicHeader(login)
  const realm = tokenAddress(registry, repository, values)
  const headers: Record<string, string> = login ? { Authorization: basicHeader(login) } : {}
  const answer = await http.ask(realm, { headers, signal })
  const bytes = await http.readAll(answer, largestAnswer, signal)
  if (answer.status === 429 || answer.status >= 500) {
    throw new AppError(
      'unavailable',
      `${realm.host} gives no token now (it answered ${answer.status}).`,
      retriable,
    )
  }
  const token = answer.status === 200 ? tokenIn(bytes) : undefined
  if (token !== undefined) return `Bearer ${token}`
  throw new AppError(
    'permission_denied',
    `${realm.host} gives no access to ${registry.host}/${repository}. ${adviceFor(asker)}`,
  )
}

/**
 * The registry names the token server; a password is sent there only encrypted, or to the registry itself.
 */
function tokenAddress(registry: URL, repository: string, values: Record<string, string>): URL {
  const realm = URL.parse(values.realm ?? '')
  if (!realm || (realm.protocol !== 'https:' && realm.host !== registry.host)) {
    throw new AppError(
      'permission_denied',
      `${registry.host} sends us to a token server without encryption, which is not followed.`,
    )
  }
  realm.username = realm.password = realm.hash = ''
  if (values.service) realm.searchParams.set('service', values.service)
  realm.searchParams.set('scope', values.scope || `repository:${repository}:pull`)
  return realm
}

export function adviceFor({ login, isMirror }: Asker): string {
  if (isMirror) return 'It is a mirror: an operator can give it a login, or check the one that it has.'
  return login
    ? 'Check that the credentials are right and may pull it.'
    : 'It does not exist, or it needs credentials.'
}

function tokenIn(bytes: Buffer): string | undefined {
  try {
    const { token, access_token: accessToken } = JSON.parse(bytes.toString()) as Record<string, unknown>
    const found = token || accessToken
    return typeof found === 'string' && /^[\x21-\x7e]+$/.test(found) ? found : undefined
  } catch {
    return undefined
  }
}
