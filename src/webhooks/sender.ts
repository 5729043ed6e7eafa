/**
 * Sends one request to a receiver that may be hostile. The receiver's name is resolved once, and the
 * connection goes to the checked address, so that a second DNS answer cannot redirect it. Redirects are not
 * followed, only the status of the answer is read, and the caller limits the time.
 */
import { request as requestHTTP } from 'node:http'
import { request as requestHTTPS } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { rootCertificates } from 'node:tls'
import type { WebhookRequestOptions, WebhookSender } from '../core/webhook/dispatcher.ts'
import { closedAddress } from '../core/webhook/webhook.ts'
import { AppError } from '../lib/app-error.ts'
import { untilAborted } from '../lib/until-aborted.ts'

const maxHeaderBytes = 16 * 1024

export type HttpWebhookSenderParts = {
  lookup: (host: string) => Promise<string[]>
  isClosed: (address: string) => boolean
  /** Further authorities that may sign receivers' certificates, in PEM form. */
  extraCA: string | undefined
}

export class HttpWebhookSender implements WebhookSender {
  readonly #parts: HttpWebhookSenderParts
  readonly #ca: string[] | undefined

  constructor(parts: HttpWebhookSenderParts) {
    this.#parts = parts
    this.#ca = parts.extraCA === undefined ? undefined : [...rootCertificates, parts.extraCA]
  }

  async send({ url, headers, body }: WebhookRequestOptions, signal: AbortSignal): Promise<number> {
    const target = new URL(url)
    const address = await untilAborted(this.#resolve(target.hostname), signal)
    const isSecure = target.protocol === 'https:'
    return new Promise((resolve, reject) => {
      const request = (isSecure ? requestHTTPS : requestHTTP)(target, {
        method: 'POST',
        agent: false,
        signal,
        maxHeaderSize: maxHeaderBytes,
        headers: { ...headers, 'content-length': Buffer.byteLength(body), connection: 'close' },
        lookup: alwaysTo(address),
        ...(isSecure && this.#ca && { ca: this.#ca }),
      })
      request.on('response', (response) => {
        const { statusCode = 0 } = response
        resolve(statusCode)
        // Stops reading here, however long the answer is.
        response.on('error', () => {})
        response.destroy()
      })
      request.on('error', (error) => reject(unreachable(error)))
      request.on('close', () => reject(unreachable(new Error('closed without an answer'))))
      request.end(body)
    })
  }

  /** Returns the first address of the host if all its addresses are allowed. */
  async #resolve(host: string): Promise<string> {
    const { lookup, isClosed } = this.#parts
    const addresses = await lookup(host).catch((cause) => {
      throw new AppError('unavailable', `The name ${host} could not be looked up.`, { cause })
    })
    const [first] = addresses
    if (first === undefined) throw new AppError('unavailable', `The name ${host} has no IPv4 address.`)
    if (addresses.some((address) => isIP(address) !== 4 || isClosed(address))) {
      throw new AppError('permission_denied', `The webhook cannot be used: ${closedAddress}.`)
    }
    return first
  }
}

const alwaysTo =
  (address: string): LookupFunction =>
  (_, { all }, callback) =>
    all ? callback(null, [{ address, family: 4 }]) : callback(null, address, 4)

/**
 * Shows only the code of a failure: a library's message may reveal more than the receiver's team should know.
 */
function unreachable(cause: NodeJS.ErrnoException): AppError {
  const why = cause.code ?? 'the connection failed'
  return new AppError('unavailable', `The receiver could not be reached: ${why}.`, { cause })
}
