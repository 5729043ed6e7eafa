import { setFlagsFromString } from 'node:v8'

/**
 * Stops V8 from placing the short-lived objects of requests in the old generation, which it learns from objects of a thousand
 * long-lived tunnels: docs/measurements/commands-and-the-edge.md. Call this once the server serves. The flag
 * makes V8 reject code caches, Node's own included, so a start with the flag on the command line would compile everything.
 */
export function stopPretenuring(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}
