/** AWS Signature Version 4, by the AWS SDK's signer: authenticates a request without sending the secret. */
import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto'

type SignedRequest = {
  method: string
  url: URL
  /** All headers are signed; `host` and `x-amz-date` are added. Names are in lower case. */
  headers: Record<string, string>
  body: string
}

type SigningKey = { accessKeyID: string; secretAccessKey: string; region: string; service: string }

/**
 * Returns the headers to send, including `authorization`. `nowMs` must be within minutes of AWS's own clock.
 */
export async function signRequest(
  { method, url, headers, body }: SignedRequest,
  { accessKeyID, secretAccessKey, region, service }: SigningKey,
  nowMs: number,
): Promise<Record<string, string>> {
  // Loaded here, because few servers ever pull from ECR.
  const { SignatureV4 } = await import('@smithy/signature-v4')
  const signer = new SignatureV4({
    credentials: { accessKeyId: accessKeyID, secretAccessKey },
    region,
    service,
    sha256: Sha256,
    applyChecksum: false,
  })
  const signed = await signer.sign(
    {
      method,
      protocol: url.protocol,
      hostname: url.hostname,
      path: url.pathname,
      body,
      query: Object.fromEntries(url.searchParams),
      headers: { ...headers, host: url.host },
    },
    { signingDate: new Date(nowMs) },
  )
  return signed.headers
}

type Bytes = string | ArrayBuffer | ArrayBufferView

/** The hash for the signer, with or without a key. */
class Sha256 {
  readonly #hash: Hash | Hmac

  constructor(secret?: Bytes) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', inBytes(secret))
  }

  update(chunk: Bytes): void {
    this.#hash.update(inBytes(chunk))
  }

  async digest(): Promise<Uint8Array> {
    return this.#hash.digest()
  }

  reset(): void {
    throw new Error('This hash can be used only once.')
  }
}

function inBytes(bytes: Bytes): Uint8Array {
  if (typeof bytes === 'string') return Buffer.from(bytes)
  if (bytes instanceof ArrayBuffer) return new Uint8Array(bytes)
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
