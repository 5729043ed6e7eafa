/** The operator's certificate and key: read at the start, and again whenever the files change. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { AppError, errorText } from '../../lib/app-error.ts'
import { type Clock, systemClock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'

type TlsFiles = { cert: string; key: string }
export type TlsPair = { cert: Buffer; key: Buffer }

export function readTlsFiles(files: TlsFiles): TlsPair {
  try {
    const pair = { cert: readFileSync(files.cert), key: readFileSync(files.key) }
    createSecureContext(pair)
    return pair
  } catch (error) {
    throw new AppError(
      'invalid_argument',
      `The certificate cannot be used: ${errorText(error)}. Check WARREN_TLS_CERT and WARREN_TLS_KEY.`,
      { cause: error },
    )
  }
}

/** Why clients would reject the certificate, as a sentence; undefined if it is valid for the domain. */
export function certificateProblem(cert: Buffer, domain: string, nowMs: number): string | undefined {
  const certificate = new X509Certificate(cert)
  const name = domain.replace(/:\d+$/, '')
  const lacking = [`api.${name}`, `49983-sandbox.${name}`].find((host) => !certificate.checkHost(host))
  if (lacking) return `the TLS certificate is not for *.${name}: clients will reject it`
  if (certificate.validToDate.getTime() > nowMs) return undefined
  return `the TLS certificate ended on ${certificate.validToDate.toISOString()}: clients will reject it`
}

type WatchOptions = { files: TlsFiles; use(pair: TlsPair): void; log: Log; clock?: Clock }

/**
 * Checks whether the files have changed, by polling: links may be swapped anywhere on the path, which a watch
 * of a folder does not see. An unusable certificate is logged once, and the current one stays in use.
 */
export class TlsWatch {
  readonly #options: WatchOptions
  #seen: Promise<string>

  constructor(options: WatchOptions) {
    this.#options = options
    this.#seen = this.#look()
  }

  async check(): Promise<void> {
    const { files, use, log, clock = systemClock } = this.#options
    const before = await this.#seen
    const now = await this.#look()
    if (now === before) return
    this.#seen = Promise.resolve(now)
    try {
      const [cert, key] = await Promise.all([readFile(files.cert), readFile(files.key)])
      createSecureContext({ cert, key })
      const { validToDate } = new X509Certificate(cert)
      if (validToDate.getTime() <= clock.now()) throw new Error(`it ended on ${validToDate.toISOString()}`)
      use({ cert, key })
      log.info({ file: files.cert, until: validToDate.toISOString() }, 'took the new TLS certificate')
    } catch (error) {
      log.error(
        { err: error, file: files.cert },
        `the new TLS certificate cannot be used, the one before stays: ${errorText(error)}. Check WARREN_TLS_CERT and WARREN_TLS_KEY`,
      )
    }
  }

  /** Changes with the content of either file, or with a link's target. */
  async #look(): Promise<string> {
    const { cert, key } = this.#options.files
    const marks = await Promise.all(
      [cert, key].map((path) =>
        stat(path).then(
          ({ dev, ino, size, mtimeMs, ctimeMs }) => [dev, ino, size, mtimeMs, ctimeMs].join(),
          (error: NodeJS.ErrnoException) => String(error.code),
        ),
      ),
    )
    return marks.join(' ')
  }
}
