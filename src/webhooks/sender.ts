/**
 * One request to a receiver that may be hostile. Its name is looked up once and the connection goes to the address that
 * was checked, so no second answer of its name server leads elsewhere. Redirects are not followed, nothing of the
 * answer but its status is read, and the caller bounds the time.
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
  /** PEM of further authorities that receivers' certificates may come from. */
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
        // An answer of any length ends here.
        response.on('error', () => {})
        response.destroy()
      })
      request.on('error', (error) => reject(unreachable(error)))
      request.on('close', () => reject(unreachable(new Error('closed without an answer'))))
      request.end(body)
    })
  }

  /** The first of its addresses, once all of them are allowed. */
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

/** Only the code of a failure is shown: the words of a library may tell more than its receiver's team should know. */
function unreachable(cause: NodeJS.ErrnoException): AppError {
  const why = cause.code ?? 'the connection failed'
  return new AppError('unavailable', `The receiver could not be reached: ${why}.`, { cause })
}
