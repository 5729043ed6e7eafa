/** Downloads a file whose checksum is known beforehand. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import { pipeline } from 'node:stream/promises'
import { AppError, errorText } from '../../lib/app-error.ts'
import { aboutProxy, type ProxyVariables, proxyVariables } from '../../lib/proxy-variables.ts'
import type { Advance } from './progress.ts'

export type PinnedFile = { name: string; url: string; sha256: string; bytes: number }

/** A server that sends nothing for this long counts as unreachable. */
const silenceMs = 20_000
const maxRedirects = 5

export async function downloadPinned(
  { name, url, sha256, bytes }: PinnedFile,
  path: string,
  advance: Advance,
  proxies = proxyVariables(),
): Promise<void> {
  const silence = new AbortController()
  let timer = setTimeout(() => silence.abort(), silenceMs)
  const heard = () => {
    clearTimeout(timer)
    timer = setTimeout(() => silence.abort(), silenceMs)
  }
  const hash = createHash('sha256')
  try {
    const response = await open(url, proxies, silence.signal)
    if (response.statusCode !== 200) throw new Error(`the server answered ${response.statusCode}`)
    let read = 0
    const counted = async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        heard()
        hash.update(chunk)
        read += chunk.length
        if (read > bytes) throw new Error(`the server sent more than ${bytes} bytes`)
        advance(read / bytes, `${Math.round(read / 1e6)} MB`)
        yield chunk
      }
    }
    await pipeline(response, counted, createWriteStream(path))
  } catch (error) {
    const why = silence.signal.aborted ? 'the server is silent' : reasonOf(error)
    throw new AppError(
      'unavailable',
      `${name} cannot be downloaded: ${why}.${remedyFor(why, url, proxies)}`,
      {
        cause: error,
      },
    )
  } finally {
    clearTimeout(timer)
  }
  if (hash.digest('hex') !== sha256) {
    throw new AppError('unavailable', `The download of ${name} has the wrong checksum and is not used.`)
  }
}

/** Through the proxy of the environment, which `fetch` does not read. */
async function open(url: string, proxyEnv: ProxyVariables, signal: AbortSignal): Promise<IncomingMessage> {
  let target = url
  for (let redirects = 0; ; redirects++) {
    const { Agent, request } = target.startsWith('https:') ? https : http
    const asked = request(target, { agent: new Agent({ proxyEnv }), signal })
    const [response] = (await once(asked.end(), 'response')) as [IncomingMessage]
    const { location } = response.headers
    if (location === undefined || redirects === maxRedirects) return response
    response.destroy()
    target = new URL(location, target).href
  }
}

function remedyFor(why: string, url: string, proxies: ProxyVariables): string {
  if (!/certificate/i.test(why)) return aboutProxy(url.startsWith('https:') ? 'https' : 'http', proxies)
  return ' If a proxy in your network inspects TLS, start Warren with WARREN_EXTRA_CA=host, which trusts what this machine trusts.'
}

/** A connection that was tried at several addresses has the reasons of all of them. */
function reasonOf(error: unknown): string {
  return error instanceof AggregateError ? error.errors.map(errorText).join(', ') : errorText(error)
}
