/** Whose an open request is: that decides which requests give way when the server has no place for another connection. */
import type { IncomingMessage } from 'node:http'

type RequestHolder = {
  /** The team whose credential it has, or whose sandbox it is for. */
  team: string
  /** Unset: the API. */
  sandboxID?: string
}

const holder = Symbol('holder')
type Held = IncomingMessage & { [holder]?: RequestHolder }

export function setHolder(request: Held, found: RequestHolder): void {
  request[holder] = found
}

/** Undefined: nobody has shown whose it is. */
export const holderOf = (request: Held): RequestHolder | undefined => request[holder]
