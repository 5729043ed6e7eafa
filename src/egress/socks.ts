/** The client's half of SOCKS5 (RFC 1928, 1929): asks a proxy for one connection. Whatever goes wrong, nothing else is tried. */
import { isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { EgressProxy } from '../core/egress.ts'
import { addressToNumber } from '../lib/ipv4.ts'

const version = 5
const withoutLogin = 0
const withPassword = 2
const connectCommand = 1
const addressTypes = { ipv4: 1, name: 3, ipv6: 4 }

const failures: Record<number, string> = {
  1: 'it failed without saying why',
  2: 'its rules do not allow the connection',
  3: 'the network cannot be reached from there',
  4: 'the host cannot be reached from there',
  5: 'the connection was refused',
  6: 'the connection timed out',
  7: 'it does not know the command',
  8: 'it does not know this kind of address',
}

/** Host and port of `host:port`. */
export function proxyEndpoint(proxy: EgressProxy): { host: string; port: number } {
  const at = proxy.address.lastIndexOf(':')
  return { host: proxy.address.slice(0, at), port: Number(proxy.address.slice(at + 1)) }
}

/** Over a connection to the proxy; rejects, with the connection closed, unless the proxy agrees. */
export async function connectThrough(
  plain: Socket,
  proxy: EgressProxy,
  host: string,
  port: number,
): Promise<Socket> {
  let socket = plain
  try {
    if (proxy.tls) socket = await secure(plain, proxy)
    await logIn(socket, proxy)
    socket.write(Buffer.concat([Buffer.from([version, connectCommand, 0]), encodeTarget(host, port)]))
    const [, code, , type] = await read(socket, 4)
    if (code !== 0) throw new Error(failures[code!] ?? `it answered with code ${code}`)
    const rest = { [addressTypes.ipv4]: 4, [addressTypes.ipv6]: 16 }[type!]
    if (rest === undefined && type !== addressTypes.name) throw new Error('its answer is malformed')
    await read(socket, (rest ?? (await read(socket, 1))[0]!) + 2)
    return socket
  } catch (error) {
    socket.destroy()
    plain.destroy()
    throw error
  }
}

function secure(plain: Socket, proxy: EgressProxy): Promise<Socket> {
  const name = proxy.tls?.serverName ?? proxyEndpoint(proxy).host
  return new Promise((resolve, reject) => {
    const socket = connectTls({
      socket: plain,
      host: name,
      ...(isIP(name) === 0 && { servername: name }),
      ...(proxy.tls?.caCert && { ca: proxy.tls.caCert }),
      minVersion: 'TLSv1.2',
    })
    socket.once('secureConnect', () => {
      socket.off('error', reject)
      resolve(socket)
    })
    socket.once('error', reject)
    plain.once('close', () => reject(new Error('it closed the connection')))
  })
}

async function logIn(socket: Socket, { username, password }: EgressProxy): Promise<void> {
  const method = username === undefined && password === undefined ? withoutLogin : withPassword
  socket.write(Buffer.from([version, 1, method]))
  const [answered, chosen] = await read(socket, 2)
  if (answered !== version) throw new Error('it does not speak SOCKS5')
  if (chosen !== method)
    throw new Error(method === withPassword ? 'it takes no password' : 'it wants a password')
  if (method === withoutLogin) return
  socket.write(Buffer.concat([Buffer.from([1]), counted(username ?? ''), counted(password ?? '')]))
  const [, status] = await read(socket, 2)
  if (status !== 0) throw new Error('it does not accept the user name and password')
}

function counted(text: string): Buffer {
  const bytes = Buffer.from(text)
  if (bytes.length > 255) throw new Error('a text is longer than 255 bytes')
  return Buffer.concat([Buffer.from([bytes.length]), bytes])
}

function encodeTarget(host: string, port: number): Buffer {
  const address = addressToNumber(host)
  const encoded = Buffer.alloc(address === undefined ? 2 : 7)
  encoded.writeUInt16BE(port, encoded.length - 2)
  if (address === undefined) return Buffer.concat([Buffer.from([addressTypes.name]), counted(host), encoded])
  encoded[0] = addressTypes.ipv4
  encoded.writeUInt32BE(address, 1)
  return encoded
}

/** Exactly so many bytes; what follows them stays in the socket. */
function read(socket: Socket, length: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const stop = () => socket.off('readable', take).off('error', fail).off('close', fail).off('end', fail)
    const fail = (error?: unknown) => {
      stop()
      reject(error instanceof Error ? error : new Error('it closed the connection'))
    }
    const take = () => {
      const bytes = socket.read(length) as Buffer | null
      if (bytes === null) return
      if (bytes.length < length) return fail()
      stop()
      resolve(bytes)
    }
    socket.on('readable', take).on('error', fail).on('close', fail).on('end', fail)
    if (socket.destroyed) fail()
    else take()
  })
}
