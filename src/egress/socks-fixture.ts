/** For tests: a SOCKS5 server that connects according to a table, and misbehaves on demand. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'

type TestSocks = AsyncDisposable & {
  /** The URL of the proxy, as in a policy. */
  proxy: { host: string; port: number }
  /** The requested destinations, as `host:port`. */
  asked: string[]
  /** Where names lead, seen from there. */
  hosts: Map<string, string>
  login: { username: string; password: string } | null
  /** Instead of the answer to a request. */
  answer: Buffer | null
}

export async function startSocks(host: string, tls?: { key: string; cert: string }): Promise<TestSocks> {
  const sockets = new Set<Socket>()
  const serve = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    void converse(socket, socks).catch(() => socket.destroy())
  }
  const server = tls ? createTlsServer(tls, serve) : createServer(serve)
  server.on('tlsClientError', () => {})
  await once(server.listen(0, host), 'listening')
  const socks: TestSocks = {
    proxy: { host, port: (server.address() as AddressInfo).port },
    asked: [],
    hosts: new Map(),
    login: null,
    answer: null,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
  return socks
}

async function converse(socket: Socket, socks: TestSocks): Promise<void> {
  const reader = new Reader(socket)
  const [, count] = await reader.read(2)
  const methods = await reader.read(count!)
  const wanted = socks.login ? 2 : 0
  socket.write(Buffer.from([5, methods.includes(wanted) ? wanted : 255]))
  if (socks.login) {
    const username = (await reader.read((await reader.read(2))[1]!)).toString()
    const password = (await reader.read((await reader.read(1))[0]!)).toString()
    const fits = username === socks.login.username && password === socks.login.password
    socket.write(Buffer.from([1, fits ? 0 : 1]))
    if (!fits) return void socket.end()
  }
  const [, , , type] = await reader.read(4)
  const host =
    type === 1
      ? [...(await reader.read(4))].join('.')
      : (await reader.read((await reader.read(1))[0]!)).toString()
  const port = (await reader.read(2)).readUInt16BE()
  socks.asked.push(`${host}:${port}`)
  if (socks.answer) return void socket.end(socks.answer)
  const far = connect({ host: socks.hosts.get(host) ?? host, port })
  far.on('error', () => socket.destroy())
  await once(far, 'connect')
  // An answer with a name, and in two pieces.
  socket.write(Buffer.from([5, 0, 0, 3, 1]))
  socket.write(Buffer.from([120, 0, 80]))
  reader.stop()
  socket.pipe(far).pipe(socket)
}

class Reader {
  readonly #socket: Socket
  constructor(socket: Socket) {
    this.#socket = socket
    socket.pause()
  }

  async read(length: number): Promise<Buffer> {
    for (;;) {
      const bytes = this.#socket.read(length) as Buffer | null
      if (bytes) return bytes
      await once(this.#socket, 'readable')
    }
  }

  stop(): void {
    this.#socket.removeAllListeners('readable')
  }
}
