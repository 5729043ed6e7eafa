import type { Server } from 'node:http'

type DirectListen = (host: null, port: number | null, family: null, backlog: number, fd?: number) => void

/** As Node has it. */
const usualBacklog = 511

/**
 * Listens as `server.listen` does, without loading Node's modules for clusters of processes first. Listens on the socket
 * `fd` if there is one.
 */
export function listenDirectly(server: Server, port: number, fd?: number): void {
  const direct = (server as { _listen2?: DirectListen })._listen2
  if (!direct) server.listen(fd === undefined ? { port } : { fd })
  else direct.call(server, null, fd === undefined ? port : null, null, usualBacklog, fd)
}
