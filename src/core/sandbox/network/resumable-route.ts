/**
 * A paused sandbox that traffic may wake, as the edge sees it: the tokens that a caller must show, and the
 * way to wake it.
 */
import type { Route } from './routes.ts'

export type ResumableRoute = Pick<Route, 'sandboxID' | 'trafficToken' | 'hostToken'> & {
  /** The token that its agent will require of callers; null if none. */
  agentToken: string | null
  /**
   * Resolves once the sandbox runs; any number of callers share one resume. Rejects with `limit_reached`,
   * with `conflict` if its state keeps changing, with `not_found` if it has ended, or with the error of the
   * resume.
   */
  wake(): Promise<Route>
}

/** Undefined if there is no such sandbox, it runs and has its route, or traffic may not wake it. */
export type FindResumable = (sandboxID: string) => Promise<ResumableRoute | undefined>

/** What a sandbox of any node requires of traffic, according to its row. */
type TrafficDemand = Pick<ResumableRoute, 'agentToken' | 'trafficToken' | 'hostToken'> & {
  /** True if the sandbox does not run. */
  isPaused: boolean
  /** True if traffic may wake the sandbox. */
  mayWake: boolean
}

/** Undefined if there is no such sandbox, or its team cannot see it. */
export type FindDemand = (sandboxID: string) => Promise<TrafficDemand | undefined>
