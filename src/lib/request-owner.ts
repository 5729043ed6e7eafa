/** Whose an open request is: that decides which requests give way when the server has no place for another connection. */
import type { IncomingMessage } from 'node:http'

type RequestOwner = {
  /** The team whose credential it has, or whose sandbox it is for. */
  team: string
  /** Unset: the API. */
  sandboxID?: string
}

const owner = Symbol('holder')
type OwnedRequest = IncomingMessage & { [owner]?: RequestOwner }

export function setRequestOwner(request: OwnedRequest, found: RequestOwner): void {
  request[owner] = found
}

/** Undefined: nobody has shown whose it is. */
export const requestOwnerOf = (request: OwnedRequest): RequestOwner | undefined => request[owner]
