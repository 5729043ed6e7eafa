/** A program in the agent's place that sends the same again and again, as fast as it is read. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

export async function openFlood(head: string, bytes: string) {
  const block = Buffer.from(bytes.repeat(1 + 65_536 / bytes.length))
  const state = { sentBytes: 0, connections: 0 }
  const server = createServer((socket) => {
    state.connections++
    socket.on('error', () => {})
    socket.write(head)
    const send = () => {
      while (!socket.destroyed && socket.write(block)) state.sentBytes += block.length
    }
    socket.on('drain', send)
    socket.once('data', send)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { endpoint: { host: '127.0.0.1', port }, state, [Symbol.dispose]: () => server.close() }
}
