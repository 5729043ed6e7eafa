/** How much of the gate one sandbox, and all of them together, may take. */
import type { ConnectionLimits } from './admitted-sandboxes.ts'
import type { DnsLimits } from './dns-front.ts'

export type GateLimits = ConnectionLimits &
  DnsLimits & {
    /** To reach a host, its proxy and its names included. */
    dialMs: number
    /** For a connection's first bytes, and for a TLS handshake with the gate. */
    openingMs: number
    /** The same where the far side may be the one to speak first. */
    serverFirstMs: number
    /** For the head of a request, and for silence between two. */
    headMs: number
    /** Whether TLS that may hide its true name (ECH) passes by the name it shows. */
    allowHiddenNames: boolean
  }

export const defaultLimits: GateLimits = {
  connectionsPerClient: 512,
  connections: 8192,
  questionsPerSecond: 50,
  questionBurst: 200,
  questionsUnderWay: 1024,
  idleMs: 10_000,
  dialMs: 10_000,
  openingMs: 10_000,
  serverFirstMs: 500,
  headMs: 60_000,
  allowHiddenNames: false,
}
