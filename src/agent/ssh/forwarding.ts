/** Ports and sockets that a client forwards over its connection. They are opened as the user of this process. */
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Connection } from 'ssh2'
import { addressOf } from './lookup.ts'

const maxListeners = 64

type PortRequest = { bindAddr: string; bindPort: number }
/** The types of the library lack sockets. */
type ForwardRequest =
  | ({ name: 'tcpip-forward' | 'cancel-tcpip-forward' } & PortRequest)
  | { name: 'streamlocal-forward@openssh.com' | 'cancel-streamlocal-forward@openssh.com'; socketPath: string }
type Bound = { server: Server; key: string }

export class Forwarding {
  readonly #client: Connection
  readonly #reserve: () => (() => void) | undefined
  #bound: Bound[] = []

  /** `reserve` gives undefined if there are too many channels, or else what is to be called at the end of the new one. */
  constructor(client: Connection, reserve: () => (() => void) | undefined) {
    this.#client = client
    this.#reserve = reserve
    client.on('tcpip', (accept, reject, { destIP, destPort }) => {
      const open = async () => connect({ host: await addressOf(destIP), port: destPort, allowHalfOpen: true })
      void this.#dial(open, accept, reject)
    })
    client.on('openssh.streamlocal', (accept, reject, { socketPath }) => {
      void this.#dial(async () => connect({ path: socketPath, allowHalfOpen: true }), accept, reject)
    })
    client.on('request', (accept, reject, name, info) => {
      this.#answer({ name, ...info } as ForwardRequest, accept, reject ?? (() => {}))
    })
  }

  #answer(request: ForwardRequest, accept: ((port?: number) => void) | undefined, reject: () => void): void {
    switch (request.name) {
      case 'tcpip-forward':
        this.#listen(request, accept, reject)
        break
      case 'streamlocal-forward@openssh.com':
        this.#listenOnPath(request.socketPath, accept, reject)
        break
      case 'cancel-tcpip-forward':
      case 'cancel-streamlocal-forward@openssh.com':
        if (this.#cancel('socketPath' in request ? request.socketPath : keyOf(request))) accept?.()
        else reject()
    }
  }

  close(): void {
    for (const { server } of this.#bound) server.close()
    this.#bound = []
  }

  async #dial(open: () => Promise<Socket>, accept: () => Duplex, reject: () => void): Promise<void> {
    const release = this.#reserve()
    if (!release) {
      reject()
      return
    }
    try {
      const socket = await open()
      await once(socket, 'connect')
      join(accept(), socket, release)
    } catch {
      // Nobody listens there, the name is unknown, or the port is 0.
      release()
      reject()
    }
  }

  /** Only on loopback, as an SSH server does unless told otherwise. */
  #listen(info: PortRequest, accept: ((port?: number) => void) | undefined, reject: () => void): void {
    const server = createServer({ allowHalfOpen: true })
    let port = info.bindPort
    server.on('connection', (socket) => {
      const { remoteAddress = '127.0.0.1', remotePort = 0 } = socket
      this.#passOn(socket, (done) =>
        this.#client.forwardOut(info.bindAddr, port, remoteAddress, remotePort, done),
      )
    })
    const bound = () => {
      const address = server.address()
      port = typeof address === 'object' && address ? address.port : port
      this.#bound.push({ server, key: keyOf({ ...info, bindPort: port }) })
      accept?.(port)
    }
    const host = info.bindAddr === '::1' ? '::1' : '127.0.0.1'
    this.#start(server, () => server.listen({ host, port }), bound, reject)
  }

  #listenOnPath(path: string, accept: (() => void) | undefined, reject: () => void): void {
    const server = createServer({ allowHalfOpen: true })
    server.on('connection', (socket) => {
      this.#passOn(socket, (done) => this.#client.openssh_forwardOutStreamLocal(path, done))
    })
    const bound = () => {
      this.#bound.push({ server, key: path })
      accept?.()
    }
    this.#start(server, () => server.listen({ path }), bound, reject)
  }

  #start(server: Server, listen: () => void, onBound: () => void, reject: () => void): void {
    if (this.#bound.length >= maxListeners) {
      reject()
      return
    }
    server.once('error', () => reject())
    server.once('listening', onBound)
    try {
      listen()
    } catch {
      reject()
    }
  }

  #passOn(socket: Socket, open: (done: (error: Error | undefined, channel: Duplex) => void) => void): void {
    socket.on('error', () => {})
    const release = this.#reserve()
    if (!release) return void socket.destroy()
    open((error, channel) => {
      if (!error) return join(channel, socket, release)
      release()
      socket.destroy()
    })
  }

  #cancel(key: string): boolean {
    const bound = this.#bound.find((one) => one.key === key)
    bound?.server.close()
    this.#bound = this.#bound.filter((one) => one !== bound)
    return bound !== undefined
  }
}

const keyOf = ({ bindAddr, bindPort }: PortRequest) => `${bindAddr} ${bindPort}`

function join(channel: Duplex, socket: Socket, release: () => void): void {
  let isOver = false
  const end = () => {
    if (isOver) return
    isOver = true
    release()
    socket.destroy()
    channel.destroy()
  }
  channel.on('error', end)
  socket.on('error', end)
  channel.once('close', end)
  socket.once('close', () => channel.end())
  channel.pipe(socket)
  socket.pipe(channel)
}
