/** What the control plane asks of the agent inside a sandbox. */
import type { Endpoint } from './driver.ts'
import type { NumberedLogEntry } from './logs.ts'

export type AgentIdentity = {
  accessToken: string
  envVars: Record<string, string>
  defaultUser: string
  defaultWorkdir: string
}

export interface AgentPort {
  /**
   * Waits until the agent answers, then hands it its identity. `currentToken` is needed once the agent has
   * one: only who knows it may change it.
   */
  initialize(
    agent: Endpoint,
    identity: AgentIdentity,
    options: { deadlineMs: number; currentToken?: string; signal?: AbortSignal },
  ): Promise<void>
  isHealthy(agent: Endpoint, withinMs?: number): Promise<boolean>
  /** What happened inside since the entry numbered `after`, then everything as it happens, until `signal`. */
  followLogs(
    agent: Endpoint,
    accessToken: string,
    after: number,
    signal: AbortSignal,
  ): AsyncIterable<NumberedLogEntry[]>
}

/** The agent listens here inside every sandbox. */
export const agentPort = 49983
