import type { Server } from 'node:http'

/** How long nothing must have been asked before memory is given back. */
const idleMs = 3000
/**
 * V8 drops compiled code that was not used for some collections. Once, after a sandbox has begun its life, it
 * should: what only the start needed goes. Before, that would slow down who gets a sandbox that was started
 * ahead; later it would slow the next command down for little.
 */
const thoroughRounds = 8
const usualRounds = 2
/** More than half of the heap limit in memory outside of it makes V8 collect everything and shrink. */
const pressureBytes = 192 * 1024 * 1024

/**
 * Most sandboxes idle most of the time: once the last request is over, what it left behind is given back to
 * the machine. Between two bursts of requests this runs once, and an idle agent has no timer.
 */
export function releaseMemoryWhenIdle(server: Server, isInUse: () => boolean): void {
  let open = 0
  let wasThorough = false
  let timer: NodeJS.Timeout | undefined
  const release = () => {
    const isThorough = !wasThorough && isInUse()
    collectGarbage(isThorough ? thoroughRounds : usualRounds)
    wasThorough ||= isThorough
  }
  const settle = () => {
    clearTimeout(timer)
    timer = open === 0 ? setTimeout(release, idleMs) : undefined
  }
  server.on('request', (request, response) => {
    // Who collects the log stays for good.
    if (request.url?.startsWith('/logs')) return
    open++
    settle()
    response.once('close', () => {
      open--
      settle()
    })
  })
}

/** The buffers are never touched, so they cost nothing but the collection they bring about. */
function collectGarbage(rounds: number): void {
  try {
    for (let round = 0; round < rounds; round++) new ArrayBuffer(pressureBytes)
  } catch {}
}
