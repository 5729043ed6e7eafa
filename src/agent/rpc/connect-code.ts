/** The codes of Connect, and the HTTP status of each in an answer that is not a stream. */
const connectStatus = {
  canceled: 499,
  unknown: 500,
  invalid_argument: 400,
  deadline_exceeded: 504,
  not_found: 404,
  already_exists: 409,
  permission_denied: 403,
  resource_exhausted: 429,
  failed_precondition: 400,
  unimplemented: 501,
  internal: 500,
  unavailable: 503,
  unauthenticated: 401,
}

export type ConnectCode = keyof typeof connectStatus

export function connectStatusOf(code: ConnectCode): number {
  return connectStatus[code]
}
