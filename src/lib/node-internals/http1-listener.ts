import type { Server } from 'node:https'
import type { Duplex } from 'node:stream'

/** Takes the parser of HTTP/1.1 off an HTTPS server. Returns a function that hands it a connection. */
export function takeHttp1Parser(server: Server): (connection: Duplex) => void {
  const [parse] = server.listeners('secureConnection') as [(connection: Duplex) => void]
  server.off('secureConnection', parse)
  return (connection) => parse.call(server, connection)
}
