/** The control plane's port to the agent inside a sandbox. */
import type { Readable } from 'node:stream'
import type { Endpoint } from './driver.ts'
import type { NumberedLogEntry } from './logs.ts'

export type AgentIdentity = {
  accessToken: string
  /** Callers other than the control plane must show the token. */
  secure: boolean
  envVars: Record<string, string>
  defaultUser: string
  defaultWorkdir: string
  /**
   * Certificates of authorities that programs inside must trust, in PEM form. They replace those given
   * before.
   */
  caBundle?: string
  /** False for a sandbox that is booted before anybody owns it. */
  hasOwner?: boolean
}

/** A command for `bash -l -c`, or for `sh -c` if it is unknown whether the image has bash. */
export type AgentCommand = {
  command: string
  shell?: 'bash' | 'sh'
  user: string
  /** Empty: the agent's default folder. */
  cwd: string
  envs: Record<string, string>
  /** The tag under which clients find the process. */
  tag?: string
}

export type CommandOutput = { stream: 'stdout' | 'stderr'; data: Buffer }
export type CommandEnd = { exitCode: number; status: string }

export type InitializeOptions = {
  deadlineMs: number
  /** Required once the agent has a token: only its holder may change anything. */
  currentToken?: string
  signal?: AbortSignal
}

/** Network namespaces besides that of the sandbox. `unknown` if the agent did not say in time. */
export type OtherNetworks = 'none' | 'some' | 'unknown'

export interface AgentPort {
  /** Waits until the agent answers, then hands over its identity or the parts of it that change. */
  initialize(agent: Endpoint, identity: Partial<AgentIdentity>, options: InitializeOptions): Promise<void>
  /** Also false if `signal` aborts first. */
  isHealthy(agent: Endpoint, options?: { withinMs?: number; signal?: AbortSignal }): Promise<boolean>
  /** Whether a thread inside has its own network namespace. */
  findOtherNetworks(
    agent: Endpoint,
    accessToken: string,
    options: { withinMs: number; signal: AbortSignal },
  ): Promise<OtherNetworks>
  /**
   * Resolves with the end of the command. If `signal` aborts, nobody listens any more, but the command keeps
   * running. Rejects with `unprocessable` and the agent's message if the command could not be started.
   */
  run(
    agent: Endpoint,
    accessToken: string,
    command: AgentCommand,
    options: { onOutput?: (output: CommandOutput) => void; signal: AbortSignal },
  ): Promise<CommandEnd>
  /** Writes as root and creates missing folders. */
  writeFile(
    agent: Endpoint,
    accessToken: string,
    path: string,
    body: Readable,
    signal: AbortSignal,
  ): Promise<void>
  /** Yields the log entries after number `after`, then new entries as they come, until `signal` aborts. */
  followLogs(
    agent: Endpoint,
    accessToken: string,
    after: number,
    signal: AbortSignal,
  ): AsyncIterable<NumberedLogEntry[]>
}

/** The port on which the agent listens inside every sandbox. */
export const agentPort = 49983
