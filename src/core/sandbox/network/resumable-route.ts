/** A paused sandbox that traffic may wake, as the edge sees it: what a caller must show, and the way to wake it. */
import type { Route } from './routes.ts'

export type ResumableRoute = Pick<Route, 'sandboxID' | 'trafficToken'> & {
  /** What its agent will want of callers; null: nothing. */
  agentToken: string | null
  /**
   * Resolves once the sandbox runs; any number of callers share one resume. Rejects with `limit_reached`,
   * `conflict` when it keeps changing under us, `not_found` when it is gone, or what went wrong.
   */
  wake(): Promise<Route>
}

/** Undefined: there is no such sandbox, it runs and has its route, or traffic may not wake it. */
export type FindResumable = (sandboxID: string) => Promise<ResumableRoute | undefined>

/** What a sandbox of any node demands of traffic, by its row. */
export type TrafficDemand = Pick<ResumableRoute, 'agentToken' | 'trafficToken'> & {
  /** It does not run. */
  isPaused: boolean
  /** Traffic may wake it. */
  mayWake: boolean
}

/** Undefined: there is no such sandbox, or its team does not see it. */
export type FindDemand = (sandboxID: string) => Promise<TrafficDemand | undefined>
