/** For tests: an edge with sandboxes that sleep until it wakes them. */
import type { ResumableRoute } from '../core/sandbox/network/resumable-route.ts'
import type { EdgeOptions } from './edge.ts'
import { type EdgeFixture, edgeFixture, type Sandbox, textOf } from './edge-fixture.ts'

type Sleeper = Sandbox & {
  /** How often the edge asked to wake it. */
  wakes: number
  /** Lets the resume succeed or fail. */
  rise: PromiseWithResolvers<void>
}
export type SleepyEdge = EdgeFixture & {
  /** How often the edge looked for a sleeping sandbox. */
  searches: number
  sleeper(options?: { trafficToken?: string; hostToken?: string; secure?: boolean }): Sleeper
}

export async function sleepyEdge(options: Partial<EdgeOptions> = {}): Promise<SleepyEdge> {
  const sleepers = new Map<string, ResumableRoute>()
  const fixture = await edgeFixture({
    async findResumable(sandboxID) {
      edge.searches++
      return sleepers.get(sandboxID)
    },
    ...options,
  })
  const edge: SleepyEdge = Object.assign(fixture, {
    searches: 0,
    sleeper({ secure = true, ...of } = {}) {
      const sandbox = fixture.sandbox(of)
      const route = fixture.routes.get(sandbox.sandboxID)!
      sandbox.remove()
      const sleeper = { ...sandbox, wakes: 0, rise: Promise.withResolvers<void>() }
      sleeper.rise.promise.catch(() => {})
      const wake = async () => {
        sleeper.wakes++
        await sleeper.rise.promise
        fixture.routes.set(route)
        return route
      }
      sleepers.set(sandbox.sandboxID, { ...route, ...(!secure && { agentToken: null }), wake })
      return sleeper
    },
  })
  return edge
}

/** Gives up after ten seconds. */
export async function until(condition: () => boolean): Promise<void> {
  const end = performance.now() + 10_000
  while (!condition()) {
    if (performance.now() > end) throw new Error(`waited in vain for ${condition}`)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** A service that tells which access token it was shown. */
export const textOfToken = (edge: EdgeFixture) =>
  edge.service((request, response) => {
    request.resume()
    response.end(request.headers['x-access-token'] ?? 'none')
  })

/** A service that answers with the request that it got. */
export const echo = (edge: EdgeFixture) =>
  edge.service(async (request, response) => {
    const body = await textOf(request).catch(() => 'broken')
    response.end(`${request.method} ${request.url} ${body}`)
  })
