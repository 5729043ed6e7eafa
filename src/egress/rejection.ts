/** Why a connection or request does not go through, in words for the program in the sandbox and its owner. */
export class Rejection extends Error {
  readonly status: number

  constructor(status: number, message: string, options: { cause?: unknown } = {}) {
    super(message, options)
    this.status = status
  }
}

export const notAllowed = (what: string): Rejection =>
  new Rejection(
    403,
    `This sandbox's network policy does not allow ${what}. To allow it, add it to allowOut of the sandbox's network.`,
  )

export const noNameSent = (address: string): Rejection =>
  new Rejection(
    400,
    `The request names no host, and this sandbox's network policy does not allow ${address}. Send the name in one Host header, or add the address to allowOut.`,
  )

export const badRequest = (why: string): Rejection => new Rejection(400, `The request was refused: ${why}.`)

export const unreachable = (what: string, why: string, cause?: unknown): Rejection =>
  new Rejection(502, `${what} cannot be reached: ${why}.`, { cause })
