/**
 * One repository of one registry, by the distribution protocol. The login is only for this registry: it is
 * sent to its host and to the token server that it names, never to a redirect's target.
 */
import { AppError } from '../lib/app-error.ts'
import { digestOf, isDigest, wrongDigest } from './digest.ts'
import { type HttpAnswer, type HttpClient, speaksNoTLS } from './http-client.ts'
import { type Fetched, type ImageSource, largestDocument, retriable } from './image-source.ts'
import { acceptedTypes } from './manifest.ts'
import { defaultRegistry, formatReference, type ImageReference } from './reference.ts'
import { type Asker, adviceFor, authorize, parseChallenge } from './registry-auth.ts'

const hubHost = 'registry-1.docker.io'
const maxRedirects = 5
const longestPauseSeconds = 30

export class RegistryClient implements ImageSource {
  readonly #http: HttpClient
  readonly #reference: ImageReference
  readonly #asker: Asker
  readonly #signal: AbortSignal
  #base: Promise<URL> | undefined
  #authorization: string | undefined

  constructor(http: HttpClient, reference: ImageReference, asker: Asker, signal: AbortSignal) {
    this.#http = http
    this.#reference = reference
    this.#asker = asker
    this.#signal = signal
  }

  async document(digest?: string): Promise<Fetched> {
    const { tag, digest: pinned } = this.#reference
    const answer = await this.#get(
      `manifests/${digest ?? pinned ?? tag}`,
      { Accept: acceptedTypes },
      this.#signal,
    )
    const bytes = await this.#http.readAll(answer, largestDocument, this.#signal)
    const said = answer.headers['docker-content-digest']
    if (isDigest(said) && digestOf(bytes, said.split(':')[0]) !== said) {
      throw wrongDigest(`The manifest of ${formatReference(this.#reference)}`, said)
    }
    return { bytes, mediaType: answer.headers['content-type'] ?? '' }
  }

  async blob(digest: string, offset: number, signal: AbortSignal): Promise<AsyncIterable<Buffer>> {
    const range: Record<string, string> = offset === 0 ? {} : { Range: `bytes=${offset}-` }
    const answer = await this.#get(`blobs/${digest}`, range, signal)
    const bytes = this.#http.bytesOf(answer, signal)
    if (offset === 0) return bytes
    if (answer.status !== 206) return withoutFirst(bytes, offset)
    if (!answer.headers['content-range']?.startsWith(`bytes ${offset}-`)) {
      throw new AppError('unprocessable', `${answer.url.host} sent another part of a layer than requested.`)
    }
    return bytes
  }

  close(): void {
    this.#http.close()
  }

  async #get(path: string, headers: Record<string, string>, signal: AbortSignal): Promise<HttpAnswer> {
    this.#base ??= this.#findBase(signal)
    const base = await this.#base.catch((error) => {
      this.#base = undefined
      throw error
    })
    const url = new URL(`/v2/${this.#reference.repository}/${path}`, base)
    let answer = await this.#follow(url, headers, signal)
    if (answer.status === 401 && answer.url.host === base.host) {
      answer.body.destroy()
      if (await this.#answerChallenge(base, answer, signal)) answer = await this.#follow(url, headers, signal)
    }
    if (answer.status === 200 || answer.status === 206) return answer
    answer.body.destroy()
    throw this.#refusal(answer, path.startsWith('manifests/'))
  }

  /** Follows redirects without the login, unless they lead back to the same host. */
  async #follow(first: URL, headers: Record<string, string>, signal: AbortSignal): Promise<HttpAnswer> {
    let url = first
    for (let redirects = 0; ; redirects++) {
      const isSame = url.origin === first.origin
      const authorization: Record<string, string> =
        isSame && this.#authorization ? { Authorization: this.#authorization } : {}
      const answer = await this.#http.ask(url, { headers: { ...headers, ...authorization }, signal })
      if (![301, 302, 303, 307, 308].includes(answer.status)) return answer
      answer.body.destroy()
      const next = URL.parse(answer.headers.location ?? '', url.href)
      if (!next || redirects === maxRedirects) {
        throw new AppError('unavailable', `${first.host} redirects ${next ? 'too often' : 'to nowhere'}.`)
      }
      if (url.protocol === 'https:' && next.protocol !== 'https:' && !this.#http.addresses.isInsecure(next)) {
        throw new AppError(
          'permission_denied',
          `${first.host} redirects to ${next.hostname} without encryption, which is not followed.`,
        )
      }
      next.username = next.password = ''
      url = next
    }
  }

  async #answerChallenge(base: URL, answer: HttpAnswer, signal: AbortSignal): Promise<boolean> {
    const challenge = parseChallenge(answer.headers['www-authenticate'])
    if (!challenge) return false
    const { repository } = this.#reference
    const met = await authorize(this.#http, base, repository, challenge, this.#asker, signal)
    this.#authorization = met
    return met !== undefined
  }

  /** A registry on this machine may work without TLS; a request finds out. */
  async #findBase(signal: AbortSignal): Promise<URL> {
    const { registry } = this.#reference
    const host = registry === defaultRegistry ? hubHost : registry
    const secure = new URL(`https://${host}`)
    const plain = new URL(`http://${host}`)
    if (this.#http.addresses.isInsecure(plain)) return plain
    if (!(await this.#http.addresses.isLoopback(secure))) return secure
    try {
      const answer = await this.#http.ask(new URL('/v2/', secure), { signal })
      answer.body.destroy()
      return secure
    } catch (error) {
      if (speaksNoTLS(error)) return plain
      throw error
    }
  }

  #refusal({ url, status, headers }: HttpAnswer, isImage: boolean): AppError {
    const name = formatReference(this.#reference)
    if (status === 404) {
      return new AppError(
        'not_found',
        isImage ? `There is no image ${name}.` : `A part of ${name} is missing at ${url.host}.`,
      )
    }
    if (status === 401 || status === 403) {
      return new AppError(
        'permission_denied',
        `${url.host} gives no access to ${name}. ${adviceFor(this.#asker)}`,
      )
    }
    const afterSeconds = Math.min(Number(headers['retry-after']) || 0, longestPauseSeconds)
    if (status === 429) {
      const why = 'does not give out more images to this address now'
      return new AppError(
        'unavailable',
        `${url.host} ${why}. Use credentials, or an operator can set a mirror.`,
        {
          retry: { should: true, afterSeconds },
        },
      )
    }
    return new AppError(
      'unavailable',
      `${url.host} answered ${status} to the request for ${name}.`,
      status >= 500 ? retriable : {},
    )
  }
}

async function* withoutFirst(chunks: AsyncIterable<Buffer>, count: number): AsyncGenerator<Buffer> {
  let left = count
  for await (const chunk of chunks) {
    if (left < chunk.length) yield chunk.subarray(left)
    left = Math.max(0, left - chunk.length)
  }
}
