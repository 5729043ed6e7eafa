/** The one listener, in plain HTTP or TLS; what it carries is attached to it. */
import { readFileSync } from 'node:fs'
import http, { type Server, type ServerOptions } from 'node:http'
import https from 'node:https'
import { AppError, errorText } from '../lib/app-error.ts'

export type TlsFiles = { cert: string; key: string }

export function createHttpServer(options: ServerOptions, tls: TlsFiles | undefined): Server {
  if (!tls) return http.createServer(options)
  try {
    return https.createServer({ ...options, cert: readFileSync(tls.cert), key: readFileSync(tls.key) })
  } catch (error) {
    throw new AppError(
      'invalid_argument',
      `The certificate cannot be used: ${errorText(error)}. Check WARREN_TLS_CERT and WARREN_TLS_KEY.`,
      { cause: error },
    )
  }
}

export function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(listenFailure(error, host, port)))
    server.listen({ host, port }, resolve)
  })
}

function listenFailure(error: NodeJS.ErrnoException, host: string, port: number): AppError {
  const place = `${host}:${port}`
  const why: Record<string, string> = {
    EADDRINUSE: `Port ${port} is taken (\`ss -ltnp 'sport = :${port}'\` shows by whom): set WARREN_PORT to another.`,
    EADDRNOTAVAIL: `This machine has no address ${host}: set WARREN_HOST to one of its own.`,
    EACCES: `Listening on ${place} is not allowed: run as root, or set WARREN_PORT above 1023.`,
  }
  const message = why[error.code ?? ''] ?? `Cannot listen on ${place}: ${error.message}`
  return new AppError('unavailable', message, { cause: error })
}

/** New connections are refused, open ones may end by themselves for a moment, then they are cut. */
export function closeServer(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => server.closeAllConnections(), graceMs)
    server.close(() => {
      clearTimeout(cut)
      resolve()
    })
    server.closeIdleConnections()
  })
}
