/**
 * Asks a SOCKS5 server for one connection, by the package `socks`. Adds what the package lacks: TLS to the
 * server, an error if the server hangs up without an answer, no password in errors, and no lost bytes.
 */
import { isIP, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { SocksClient } from 'socks'
import type { EgressProxy } from '../core/ports/egress.ts'
import { errorText } from '../lib/app-error.ts'

type SocksTarget = { host: string; port: number }

/**
 * Uses an open connection to the proxy. Rejects, with the connection closed, unless the proxy agrees in time.
 */
export async function connectThrough(
  plain: Socket,
  proxy: EgressProxy,
  destination: SocksTarget,
  timeoutMs: number,
): Promise<Socket> {
  let socket = plain
  const hangUp = () => plain.destroy()
  plain.once('end', hangUp)
  try {
    if (proxy.tls) socket = await secure(plain, proxy)
    await negotiate(socket, proxy, destination, timeoutMs)
    return socket
  } catch (error) {
    socket.destroy()
    plain.destroy()
    throw error
  } finally {
    plain.off('end', hangUp)
  }
}

async function negotiate(
  socket: Socket,
  { host, port, username, password }: EgressProxy,
  destination: SocksTarget,
  timeout: number,
): Promise<void> {
  const login = { ...(username && { userId: username }), ...(password && { password }) }
  const established = SocksClient.createConnection({
    command: 'connect',
    proxy: { host, port, type: 5, ...login },
    destination,
    existing_socket: socket,
    timeout,
  }).catch((error: unknown) => {
    // The package's error holds its options with the password, and errors are logged.
    throw new Error(errorText(error))
  })
  const { remoteHost } = await established
  // The package treats an answer with an unknown address type as success.
  if (!remoteHost) throw new Error('its answer is malformed')
  await keepEarlyBytes(socket)
}

/** The package emits bytes that followed the proxy's answer in the next turn, when nobody may listen yet. */
async function keepEarlyBytes(socket: Socket): Promise<void> {
  const chunks: Buffer[] = []
  const collect = (chunk: Buffer) => void chunks.push(chunk)
  socket.on('data', collect)
  await nextTurn()
  socket.off('data', collect).pause()
  if (chunks.length > 0) socket.unshift(Buffer.concat(chunks))
  // As on a new socket: the next listener starts the flow.
  Object.assign(socket, { readableFlowing: null })
}

function secure(plain: Socket, proxy: EgressProxy): Promise<Socket> {
  const name = proxy.tls?.serverName ?? proxy.host
  return new Promise((resolve, reject) => {
    const socket = connectTls({
      socket: plain,
      host: name,
      ...(isIP(name) === 0 && { servername: name }),
      ...(proxy.tls?.caCert && { ca: proxy.tls.caCert }),
      minVersion: 'TLSv1.2',
    })
    socket.once('secureConnect', () => {
      // The next user of the socket adds its listener later.
      socket.off('error', reject).on('error', () => {})
      resolve(socket)
    })
    socket.once('error', reject)
    plain.once('close', () => reject(new Error('the proxy closed the connection')))
  })
}
