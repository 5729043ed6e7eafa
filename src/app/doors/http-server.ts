/** The server's only listener, in plain HTTP or TLS; the caller attaches the handlers. */
import { readFileSync } from 'node:fs'
import http, { type Server, type ServerOptions } from 'node:http'
import https from 'node:https'
import { type AddressInfo, Server as NetServer } from 'node:net'
import { AppError } from '../../lib/app-error.ts'
import { systemClock } from '../../lib/clock.ts'
import { StartRefusal } from '../process/start-refusal.ts'
import type { TlsPair } from '../trust/tls-files.ts'
import { ClientConnections } from './client-connections.ts'
import { FullHouse } from './full-house.ts'
import { alpnProtocols, openHttp2 } from './http2.ts'
import type { Http2Sessions } from './http2-sessions.ts'
import { portProblem } from './port.ts'

const handshakeTimeoutMs = 30_000

export type Listener = {
  server: Server
  /** Used for connections from now on. */
  useCertificate(pair: TlsPair): void
  /** With `inherited`, listens on that descriptor, which must be of the same address. */
  listen(host: string, port: number, inherited?: number): Promise<void>
  /** Serves on, but asks each client that sends a request to open another connection for its next one. */
  askToLeave(): void
  /** The same, and resolves when clients know: by an answer, or because their connection was quiet for this time and is closed. */
  letLeave(quietMs: number): Promise<void>
  /** Whether a client opened or used a connection within this time and may be sending a request on it. */
  isInUse(quietMs: number): boolean
  /**
   * Rejects new connections, lets open ones end, then cuts them: after `graceMs`, or when `finished` resolves. A connection
   * that was used within `quietMs` is not closed before.
   */
  close(closing: DoorClosing): Promise<void>
}

/**
 * With a certificate, clients choose between HTTP/2 and HTTP/1.1. Clients may use a third of the files that this
 * process may open, and their connections to sandboxes another one. The rest is for starts, the store and the disk, which
 * must keep working however many clients connect.
 */
export function createListener(
  options: ServerOptions,
  pair: TlsPair | undefined,
  maxConnections = Math.floor(maxOpenFiles() / 3),
): Listener {
  if (!pair) return listenerOf(http.createServer(options), maxConnections)
  const tls = { ...pair, ALPNProtocols: alpnProtocols, handshakeTimeout: handshakeTimeoutMs }
  const server = https.createServer({ ...options, ...tls })
  const listener = listenerOf(server, maxConnections, openHttp2(server))
  return { ...listener, useCertificate: (next) => server.setSecureContext(next) }
}

function maxOpenFiles(): number {
  const found = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))
  return Number(found?.[1] ?? 1024)
}

function listenerOf(server: Server, maxConnections: number, http2?: Http2Sessions): Listener {
  server.maxConnections = maxConnections
  new FullHouse({ server, endIdle: () => http2?.endIdle(), clock: systemClock })
  const connections = new ClientConnections(server, systemClock)
  const askToLeave = () => {
    connections.askToLeave()
    http2?.askToLeave()
  }
  return {
    server,
    useCertificate() {},
    listen: (host, port, inherited) => listen(server, host, port, inherited),
    askToLeave,
    async letLeave(quietMs) {
      await Promise.all([connections.letLeave(quietMs), http2?.letLeave(quietMs)])
    },
    isInUse: (quietMs) => connections.isInUse(quietMs) || (http2?.isInUse(quietMs) ?? false),
    async close({ quietMs = 0, ...closing }) {
      askToLeave()
      // A connection on which streams follow each other without a pause ends by itself only if its client is told.
      const last = setTimeout(() => http2?.delayStreams(), closing.graceMs / 2)
      await closeGently(server, {
        ...closing,
        closeIdle: () => void connections.closeQuiet(quietMs),
        cut: () => http2?.cut(),
      })
      clearTimeout(last)
    },
  }
}

export function listen(server: Server, host: string, port: number, inherited?: number): Promise<void> {
  if (inherited !== undefined) return listenOn(server, inherited, `${host}:${port}`)
  return new Promise((resolve, reject) => {
    server.once('error', async (error) => {
      const problem = await portProblem(host, port)
      reject(new AppError('unavailable', problem?.text ?? error.message, { cause: error }))
    })
    server.listen({ host, port }, resolve)
  })
}

async function listenOn(server: Server, fd: number, wanted: string): Promise<void> {
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen({ fd }, resolve))
  const { address, port } = server.address() as AddressInfo
  if (`${address}:${port}` === wanted) return
  server.close()
  throw new StartRefusal(
    'conflict',
    `systemd opened ${address}:${port} for Warren, but its settings say ${wanted}. Run \`warren systemd --install\` again.`,
  )
}

/** How long clients may use their open connections, of which each answer then is the last, and how often idle ones are closed afterwards. */
const lingerMs = 300
const closeIdleEveryMs = 50

type DoorClosing = {
  graceMs: number
  /** Resolves when nobody is worth waiting for any more. */
  finished?: Promise<void>
  quietMs?: number
}

type ClosingOptions = Omit<DoorClosing, 'quietMs'> & {
  closeIdle: () => void
  /** Cuts what `closeAllConnections` of the server does not know. */
  cut?: () => void
}

/**
 * On a busy machine a request may have arrived some time before Node reads it. So Node reads first: what `setImmediate`
 * runs comes after the requests and connections that have arrived.
 */
export function closeGently(
  server: Server,
  { graceMs, finished, closeIdle, cut }: ClosingOptions,
): Promise<void> {
  return new Promise((resolve) => {
    let sweep: NodeJS.Timeout | undefined
    const closeIdleSoon = () => void setImmediate(closeIdle)
    const linger = setTimeout(
      () => {
        sweep = setInterval(closeIdleSoon, closeIdleEveryMs)
        closeIdleSoon()
      },
      Math.min(lingerMs, graceMs / 4),
    )
    const cutAll = () => {
      clearInterval(sweep)
      server.closeAllConnections()
      cut?.()
    }
    const end = setTimeout(() => setImmediate(cutAll), graceMs)
    void finished?.then(cutAll)
    const closed = () => {
      for (const timer of [linger, sweep, end]) clearTimeout(timer)
      resolve()
    }
    // Unlike that of an HTTP server, this one leaves idle connections open.
    setImmediate(() => NetServer.prototype.close.call(server, closed))
  })
}
