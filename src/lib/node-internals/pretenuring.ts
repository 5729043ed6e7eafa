import { setFlagsFromString } from 'node:v8'

/**
 * V8 must not learn from a thousand tunnels, which last, that what requests make lasts as well: see docs/performance.md.
 * To be called when the server serves. From then on V8 rejects compiled code from caches, Node's own included, since that
 * was made under other flags: as an option of the process, the flag makes each start compile all of it anew.
 */
export function stopPretenuring(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}
