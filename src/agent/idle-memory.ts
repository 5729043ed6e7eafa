import type { Server } from 'node:http'
import { type CFunction, openCLibrary } from '../lib/c-library.ts'
import { collectGarbage, setCodeAge } from '../lib/node-internals/collection.ts'
import { openIdleTimer } from './idle-timer.ts'

/**
 * How long nothing must have been asked before memory is given back. It takes CPU, which others need to boot where many
 * are created at once, so it waits; but not for the eight seconds after which V8 does less for as much by itself.
 */
const idleMs = 6000
const rounds = 2
/**
 * V8 drops compiled code that was not used for so many collections. Once, after a sandbox has begun its life, it should
 * at the first: what only the start needed goes. Before, that would slow down who gets a sandbox that was started ahead;
 * later it would slow the next command down for little.
 */
const codeAge = { once: 1, usual: 6 }
/** The memory of collected buffers is freed by another thread. */
const sweptAfterMs = 50

/**
 * Most sandboxes idle most of the time: once no request has begun or ended for a while, what they left behind is
 * given back to the machine. Streams may stay open meanwhile. Between two bursts of requests this runs once, and
 * an idle agent has no timer.
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
    // The control plane follows the log for as long as the sandbox lives: that is no use of it.
    if (request.url?.startsWith('/logs')) return
    wait()
    response.once('close', wait)
  })
}

/**
 * What little is kept lies scattered among what was freed, and the C library gives back of itself only what lies
 * after all of it.
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
