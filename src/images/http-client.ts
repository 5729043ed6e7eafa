/** Requests to registries: only to checked addresses, with a limit on silence. Does not follow redirects. */
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { LookupFunction } from 'node:net'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { AppError, errorText } from '../lib/app-error.ts'
import type { Addresses } from './address-policy.ts'
import { retriable } from './image-source.ts'

export type HttpAnswer = {
  url: URL
  status: number
  headers: IncomingMessage['headers']
  body: IncomingMessage
}
type HttpAsk = {
  headers?: Record<string, string>
  /** Sent by POST if given. */
  body?: string
  signal: AbortSignal
}

export class HttpClient {
  readonly addresses: Addresses
  readonly #silenceMs: number
  readonly #http = new HttpAgent({ keepAlive: true })
  readonly #https: HttpsAgent

  constructor(addresses: Addresses, silenceMs: number, trusted: SecureContext) {
    this.addresses = addresses
    this.#silenceMs = silenceMs
    this.#https = new HttpsAgent({ keepAlive: true, secureContext: trusted })
  }

  async ask(url: URL, { headers = {}, body, signal }: HttpAsk): Promise<HttpAnswer> {
    signal.throwIfAborted()
    await this.addresses.assertScheme(url)
    const addresses = await this.addresses.addressesOf(url)
    const lookup: LookupFunction = (_host, options, found) => {
      if (options.all) found(null, addresses)
      else found(null, addresses[0]!.address, addresses[0]!.family)
    }
    const isPlain = url.protocol === 'http:'
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = (isPlain ? httpRequest : httpsRequest)(
        url,
        {
          method: body === undefined ? 'GET' : 'POST',
          headers: { 'User-Agent': 'warren', ...headers },
          agent: isPlain ? this.#http : this.#https,
          lookup,
          signal,
        },
        resolve,
      )
      const silent = setTimeout(() => request.destroy(new Error('no answer')), this.#silenceMs)
      request.on('error', (error) => reject(signal.aborted ? signal.reason : unreachable(url, error)))
      request.on('close', () => clearTimeout(silent))
      request.on('response', () => clearTimeout(silent))
      request.end(body)
    })
    // The reader of the body gets its error, but there may be no reader.
    response.on('error', () => {})
    return { url, status: response.statusCode ?? 0, headers: response.headers, body: response }
  }

  /** Yields the bytes of an answer. A broken connection is an error that may be retried. */
  async *bytesOf({ url, body }: HttpAnswer, signal: AbortSignal): AsyncGenerator<Buffer> {
    const chunks = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>
    try {
      for (;;) {
        // The timer runs only while this waits: a slow disk does not count as the registry's silence.
        const silent = setTimeout(() => body.destroy(new Error('it fell silent')), this.#silenceMs)
        const { value, done } = await chunks.next().finally(() => clearTimeout(silent))
        if (done) return
        yield value
      }
    } catch (error) {
      throw signal.aborted ? signal.reason : unreachable(url, error)
    } finally {
      body.destroy()
    }
  }

  async readAll(answer: HttpAnswer, maxBytes: number, signal: AbortSignal): Promise<Buffer> {
    const parts: Buffer[] = []
    let size = 0
    for await (const part of this.bytesOf(answer, signal)) {
      size += part.length
      if (size > maxBytes) {
        throw new AppError('unprocessable', `${answer.url.host} answers with more than ${maxBytes} bytes.`)
      }
      parts.push(part)
    }
    return Buffer.concat(parts)
  }

  close(): void {
    this.#http.destroy()
    this.#https.destroy()
  }
}

/** Node's own list, the machine's, and the operator's additions (PEM). */
export function trustedCertificates(added: readonly string[]): SecureContext {
  const known = [...getCACertificates('default'), ...getCACertificates('system'), ...added]
  return createSecureContext({ ca: [...new Set(known)] })
}

/** True if the peer answers a TLS handshake with plain text. */
export function speaksNoTLS(error: unknown): boolean {
  const cause = (error as { cause?: { code?: unknown; message?: string } } | undefined)?.cause
  return /WRONG_VERSION_NUMBER|PACKET_LENGTH|wrong version number|packet length/i.test(
    `${cause?.code} ${cause?.message}`,
  )
}

/** Names only the host: the rest of an address may contain a signature. */
function unreachable(url: URL, error: unknown): AppError {
  const code = String((error as { code?: unknown } | null)?.code ?? '')
  const badCertificate = /CERT|SIGNATURE|SELF_SIGNED|ISSUER|^ERR_TLS/.test(code)
  const why = code || errorText(error)
  return new AppError(
    'unavailable',
    badCertificate
      ? `${url.host} has no valid certificate (${code}). An operator can add its certificate authority, or list it as insecure.`
      : `${url.host} cannot be reached: ${why}.`,
    { cause: error, ...(!badCertificate && retriable) },
  )
}
