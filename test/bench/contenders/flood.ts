/** A hostile client, as a thread: connections that write requests ahead of the answers and read whatever comes. */
import net from 'node:net'
import { workerData } from 'node:worker_threads'

export type Flood = {
  port: number
  connections: number
  request: string
  /** How many of them are written at a time; with one, each connection asks once. */
  ahead: number
}

const reopenAfterMs = 20
const { port, connections, request, ahead } = workerData as Flood
const batch = request.repeat(ahead)

function open(): void {
  const socket = net.connect(port, '127.0.0.1').on('error', () => {})
  const write = () => {
    while (!socket.destroyed && socket.write(batch) && ahead > 1);
  }
  socket.on('connect', write).resume()
  if (ahead > 1) socket.on('drain', write)
  socket.once('close', () => setTimeout(open, reopenAfterMs))
}

for (let opened = 0; opened < connections; opened++) open()
