/** Names and numbers that are the same for every part that speaks the wire. */
export const envdPort = 49983
/** The port of the code interpreter's server in its template. */
export const interpreterPort = 49_999
/** The agent version we report: every client feature gate is at or below it. */
export const envdVersion = '0.6.13'
/** Deprecated on the wire, constant since. */
export const clientID = '6532622b'

export const header = {
  apiKey: 'x-api-key',
  adminToken: 'x-admin-token',
  teamID: 'x-team-id',
  accessToken: 'x-access-token',
  sandboxID: 'e2b-sandbox-id',
  sandboxPort: 'e2b-sandbox-port',
  trafficToken: 'e2b-traffic-access-token',
  nextToken: 'x-next-token',
  totalRunning: 'x-total-running',
  shouldRetry: 'should-retry',
  retryAfter: 'retry-after',
  idempotencyKey: 'idempotency-key',
} as const

/** The path of the agent at which an SSH connection begins, and the protocol to which it is upgraded. */
export const sshPath = '/ssh'
export const sshProtocol = 'warren-ssh'

/** Metadata by which a create asks for an image or a size. */
export const onDemandKeys = {
  image: 'warren.image',
  cpu: 'warren.cpu',
  memory: 'warren.memory',
} as const

/** Every header of the hop begins so. Nodes remove them all, so new ones are safe between two releases. */
export const hopHeaderPrefix = 'warren-'

/** What one Warren of a cluster tells another beside a request, or in place of an answer. */
export const hopHeader = {
  clientAddress: 'warren-client-address',
  clientProtocol: 'warren-client-protocol',
  neededCapacity: 'warren-needs-room',
  refusal: 'warren-refusal',
  made: 'warren-made',
  operation: 'warren-operation',
  attempt: 'warren-attempt',
} as const

/** Routes of the agent that only the control plane may use; the edge answers 404 for them. */
export const internalAgentPaths: readonly string[] = [
  '/init',
  '/relay',
  '/logs',
  '/freeze',
  '/unfreeze',
  '/collapse',
  '/fsfreeze',
  '/fsthaw',
  '/upgrade',
]
