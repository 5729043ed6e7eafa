import type { Server } from 'node:http'
import { type CFunction, openCLibrary } from '../lib/c-library.ts'
import { collectGarbage, setCodeAge } from '../lib/node-internals/collection.ts'
import { openIdleTimer } from './idle-timer.ts'

/**
 * How long the agent must be idle before it returns memory. Returning memory takes CPU, which others need to
 * boot when many sandboxes are created at once, so it waits; but not for the eight seconds after which V8
 * does less for the same cost.
 */
const idleMs = 6000
const rounds = 2
/**
 * V8 drops compiled code that was not used for this many collections. Once, after a sandbox has begun its
 * life, the first collection should drop code that only the start needed. Earlier, that would slow down the
 * owner of a warm sandbox; later it would slow down the next command for little gain.
 */
const codeAge = { once: 1, usual: 6 }
/** Another thread frees the memory of collected buffers. */
const sweptAfterMs = 50

/**
 * Most sandboxes idle most of the time: once no request has begun or ended for a while, the agent returns
 * free memory to the machine. Streams may stay open meanwhile. This runs once between two bursts of requests,
 * and an idle agent has no timer.
 */
export function releaseMemoryWhenIdle(server: Server, isInUse: () => boolean, addonPath: string): void {
  let wasThorough = false
  const trim = openTrim(addonPath)
  let sweeping: NodeJS.Timeout | undefined
  const release = () => {
    const isThorough = !wasThorough && isInUse()
    if (isThorough) setCodeAge(codeAge.once)
    collectGarbage(rounds)
    if (isThorough) setCodeAge(codeAge.usual)
    wasThorough ||= isThorough
    sweeping = setTimeout(trim, sweptAfterMs)
  }
  const waitAnew = openIdleTimer(idleMs, release)
  const wait = () => {
    clearTimeout(sweeping)
    waitAnew()
  }
  server.on('request', (request, response) => {
    // The control plane follows the log for as long as the sandbox lives, so that request does not count as
    // activity.
    if (request.url?.startsWith('/logs')) return
    wait()
    response.once('close', wait)
  })
}

/**
 * The remaining allocations are scattered among freed memory, and the C library itself returns only the
 * memory after the last one.
 */
function openTrim(addonPath: string): () => void {
  let mallocTrim: CFunction | undefined
  return () => {
    try {
      mallocTrim ??= openCLibrary(addonPath).func('int malloc_trim(size_t)')
      mallocTrim(0)
    } catch {}
  }
}
