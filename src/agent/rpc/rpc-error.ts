import type { ConnectCode } from './connect-code.ts'

/** A failure of a call without a code of the domain: the protocol's own, or one that the contract names. */
export class RpcError extends Error {
  readonly code: ConnectCode

  constructor(code: ConnectCode, message: string) {
    super(message)
    this.code = code
  }
}
