/** Limits for the gate's resources, per sandbox and for all together. */
import type { ConnectionLimits } from './admitted-sandboxes.ts'
import type { DnsLimits } from './dns-front.ts'

export type GateLimits = ConnectionLimits &
  DnsLimits & {
    /** Time to reach a host, including its proxy and DNS. */
    dialMs: number
    /** Time for a connection's first bytes, and for a TLS handshake with the gate. */
    openingMs: number
    /** Time for a connection's first bytes if the far side may be the one to speak first. */
    serverFirstMs: number
    /** Time for the head of a request, and for silence between two. */
    headMs: number
    /** Whether TLS that may hide its true name (ECH) passes by its visible name. */
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
