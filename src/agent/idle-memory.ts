import type { Server } from 'node:http'
import { type CFunction, openCLibrary } from '../lib/c-library.ts'

/** How long nothing must have been asked before memory is given back. */
const idleMs = 3000
/**
 * V8 drops compiled code that was not used for some collections. Once, after a sandbox has begun its life, it
 * should: what only the start needed goes. Before, that would slow down who gets a sandbox that was started
 * ahead; later it would slow the next command down for little.
 */
const thoroughRounds = 8
const usualRounds = 3
/** The memory of collected buffers is freed by another thread. */
const sweptAfterMs = 50
/** More than half of the heap limit in memory outside of it makes V8 collect everything and shrink. */
const pressureBytes = 192 * 1024 * 1024

/**
 * Most sandboxes idle most of the time: once no request has begun or ended for a while, what they left behind is
 * given back to the machine. Streams may stay open meanwhile. Between two bursts of requests this runs once, and
 * an idle agent has no timer.
 */
export function releaseMemoryWhenIdle(server: Server, isInUse: () => boolean, addonPath: string): void {
  let wasThorough = false
  let timer: NodeJS.Timeout | undefined
  const trim = openTrim(addonPath)
  const release = () => {
    const isThorough = !wasThorough && isInUse()
    collectGarbage(isThorough ? thoroughRounds : usualRounds)
    wasThorough ||= isThorough
    timer = setTimeout(trim, sweptAfterMs)
  }
  const wait = () => {
    clearTimeout(timer)
    timer = setTimeout(release, idleMs)
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

/** The buffers are never touched, so they cost nothing but the collection they bring about. */
export function collectGarbage(rounds: number): void {
  try {
    for (let round = 0; round < rounds; round++) new ArrayBuffer(pressureBytes)
  } catch {}
}
