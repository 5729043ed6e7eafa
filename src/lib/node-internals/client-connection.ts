/** How Node's HTTP client and its agent hand a connection to each other. `UpstreamPool` is an agent of our own. */
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/** The request that was last sent over a connection, as Node's client leaves it there. */
type SentRequest = { shouldKeepAlive: boolean; res: IncomingMessage | null }

type ClientSocket = Socket & { _httpMessage?: SentRequest | null }
type AwaitingSocket = { onSocket(socket: Socket | null, error?: Error): void }

export function sentRequestOf(socket: Socket): SentRequest | null {
  return (socket as ClientSocket)._httpMessage ?? null
}

/** The connection is free for another request. */
export function forgetSentRequest(socket: Socket): void {
  const clientSocket: ClientSocket = socket
  clientSocket._httpMessage = null
}

export function giveConnection(request: ClientRequest, socket: Socket): void {
  request.onSocket(socket)
}

/** Ends the request with an error. The types of Node do not declare this use of the method. */
export function failConnection(request: ClientRequest, error: Error): void {
  const awaiting: AwaitingSocket = request as AwaitingSocket
  awaiting.onSocket(null, error)
}
