/**
 * Why the gate rejects a connection or request; the message is for the program in the sandbox and its owner.
 */
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
    `The egress policy of this sandbox does not allow ${what}. To allow it, add it to allowOut of the sandbox's network.`,
  )

export const noNameSent = (address: string): Rejection =>
  new Rejection(
    400,
    `The request names no host, and the egress policy of this sandbox does not allow ${address}. Send the name in one Host header, or add the address to allowOut.`,
  )

export const reflectsHeaders = (method: string): Rejection =>
  new Rejection(
    405,
    `${method} is not allowed to a host with a header rule: its answer would show the headers of the rule.`,
  )

export const badRequest = (why: string): Rejection =>
  new Rejection(400, `The gate rejects the request: ${why}.`)

export const unreachable = (what: string, why: string, cause?: unknown): Rejection =>
  new Rejection(502, `${what} cannot be reached: ${why}.`, { cause })
