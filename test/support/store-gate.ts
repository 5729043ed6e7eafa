/** A TCP relay in front of the object store of a test, which can hold back the answers of the store. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type StoreGate = {
  endpoint: string
  /** From now on, answers pass at this many bytes a second. */
  slow(bytesPerSecond: number): void
  /** From now on, no answer passes. */
  block(): void
  /** Everything passes again. */
  release(): void
  /** True if an answer waits. */
  isBlocking(): boolean
  close(): Promise<void>
}

export async function openStoreGate(storeEndpoint: string): Promise<StoreGate> {
  const { hostname, port } = new URL(storeEndpoint)
  const sockets = new Set<Socket>()
  const blocked = new Set<() => void>()
  let rate = Number.POSITIVE_INFINITY
  let nextAt = 0
  const server = createServer((client) => {
    const store = connect(Number(port), hostname)
    for (const socket of [client, store]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => sockets.delete(socket))
    }
    client.pipe(store)
    // The store is paused while a chunk waits, so there is one of them at most.
    let waits: (() => void) | undefined
    store.on('data', (chunk) => {
      store.pause()
      const pass = () => {
        blocked.delete(pass)
        waits = undefined
        if (client.write(chunk)) store.resume()
        else client.once('drain', () => store.resume())
        if (store.closed) client.end()
      }
      if (rate === Number.POSITIVE_INFINITY) return pass()
      waits = pass
      blocked.add(pass)
      if (rate === 0) return
      nextAt = Math.max(nextAt, Date.now()) + (chunk.length / rate) * 1000
      setTimeout(() => blocked.has(pass) && rate > 0 && pass(), nextAt - Date.now())
    })
    client.on('close', () => {
      if (waits) blocked.delete(waits)
      store.destroy()
    })
    store.on('close', () => {
      if (!waits) client.end()
    })
  }).listen(0, hostname)
  await once(server, 'listening')
  return {
    endpoint: `http://${hostname}:${(server.address() as AddressInfo).port}`,
    slow(bytesPerSecond) {
      rate = bytesPerSecond
    },
    block() {
      rate = 0
    },
    release() {
      rate = Number.POSITIVE_INFINITY
      for (const pass of [...blocked]) pass()
    },
    isBlocking: () => blocked.size > 0,
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
