/** The one listener, in plain HTTP or TLS; what it carries is attached to it. */
import { readFileSync } from 'node:fs'
import http, { type Server, type ServerOptions } from 'node:http'
import https from 'node:https'
import { AppError, errorText } from '../lib/app-error.ts'
import { portProblem } from './port.ts'

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
    server.once('error', async (error) => {
      const problem = await portProblem(host, port)
      reject(new AppError('unavailable', problem ?? error.message, { cause: error }))
    })
    server.listen({ host, port }, resolve)
  })
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
