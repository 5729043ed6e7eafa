import type { Server } from 'node:http'

/** A client that has sent all of its requests and closed its side still gets the answers. */
export function answerHalfOpenClients(server: Server): void {
  Object.assign(server, { httpAllowHalfOpen: true })
}
