/** A TCP relay in front of the object store of a test, which can hold back the answers of the store. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type StoreGate = {
  endpoint: string
  /** From now on, only this number of bytes of answers passes; the rest waits. */
  allow(bytes: number): void
  /** Everything passes again. */
  release(): void
  /** True if an answer waits. */
  isHolding(): boolean
  close(): Promise<void>
}

export async function openStoreGate(storeEndpoint: string): Promise<StoreGate> {
  const { hostname, port } = new URL(storeEndpoint)
  const sockets = new Set<Socket>()
  const held = new Set<() => void>()
  let left = Number.POSITIVE_INFINITY
  const server = createServer((client) => {
    const store = connect(Number(port), hostname)
    for (const [one, other] of [
      [client, store],
      [store, client],
    ] as const) {
      sockets.add(one)
      one.on('error', () => {})
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
    }
    client.pipe(store)
    store.on('data', (chunk) => {
      left -= chunk.length
      if (left >= 0) {
        if (!client.write(chunk)) {
          store.pause()
          client.once('drain', () => store.resume())
        }
        return
      }
      store.pause()
      const pass = () => {
        held.delete(pass)
        client.write(chunk)
        store.resume()
      }
      held.add(pass)
      client.once('close', () => held.delete(pass))
    })
  }).listen(0, hostname)
  await once(server, 'listening')
  return {
    endpoint: `http://${hostname}:${(server.address() as AddressInfo).port}`,
    allow(bytes) {
      left = bytes
    },
    release() {
      left = Number.POSITIVE_INFINITY
      for (const pass of [...held]) pass()
    },
    isHolding: () => held.size > 0,
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
