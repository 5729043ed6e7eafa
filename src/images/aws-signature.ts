/** AWS Signature Version 4: proves a request without sending the secret. */
import { createHash, createHmac } from 'node:crypto'

export type SignedRequest = {
  method: string
  url: URL
  /** All of them are signed; `host` and `x-amz-date` are added. Names in lower case. */
  headers: Record<string, string>
  body: string
}

export type SigningKey = { accessKeyID: string; secretAccessKey: string; region: string; service: string }

const algorithm = 'AWS4-HMAC-SHA256'

/** The headers to send, `authorization` included. `nowMs` must be within minutes of AWS's own clock. */
export function signRequest(request: SignedRequest, key: SigningKey, nowMs: number): Record<string, string> {
  const stamp = new Date(nowMs).toISOString().replace(/[-:]|\.\d{3}/g, '')
  const scope = [stamp.slice(0, 8), key.region, key.service, 'aws4_request']
  const headers: Record<string, string> = { ...request.headers, host: request.url.host, 'x-amz-date': stamp }
  const names = Object.keys(headers).sort()
  const canonical = [
    request.method,
    request.url.pathname,
    canonicalQuery(request.url),
    ...names.map((name) => `${name}:${headers[name]!.trim().replace(/ +/g, ' ')}`),
    '',
    names.join(';'),
    sha256(request.body),
  ].join('\n')
  const toSign = [algorithm, stamp, scope.join('/'), sha256(canonical)].join('\n')
  const derived = scope.reduce<Buffer | string>(hmac, `AWS4${key.secretAccessKey}`)
  const signature = hmac(derived, toSign).toString('hex')
  const credential = `Credential=${key.accessKeyID}/${scope.join('/')}`
  const authorization = `${algorithm} ${credential}, SignedHeaders=${names.join(';')}, Signature=${signature}`
  return { ...headers, authorization }
}

function canonicalQuery(url: URL): string {
  const encode = (text: string) =>
    encodeURIComponent(text).replace(
      /[!'()*]/g,
      (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`,
    )
  const pairs = [...url.searchParams].map(([name, value]) => `${encode(name)}=${encode(value)}`)
  return pairs.sort().join('&')
}

const hmac = (key: Buffer | string, text: string): Buffer => createHmac('sha256', key).update(text).digest()
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
