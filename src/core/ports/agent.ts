/** What the control plane asks of the agent inside a sandbox. */
import type { Readable } from 'node:stream'
import type { Endpoint } from './driver.ts'
import type { NumberedLogEntry } from './logs.ts'

export type AgentIdentity = {
  accessToken: string
  /** Whether callers other than the control plane must show the token. */
  secure: boolean
  envVars: Record<string, string>
  defaultUser: string
  defaultWorkdir: string
  /** The certificates of authorities that programs inside shall trust, in PEM form, in place of those given before. */
  caBundle?: string
  /** False: the sandbox is made ready before anybody owns it. */
  hasOwner?: boolean
}

/** For `bash -l -c`, or for `sh -c` where nothing is known of the image yet. */
export type AgentCommand = {
  command: string
  shell?: 'bash' | 'sh'
  user: string
  /** Empty: the agent's default folder. */
  cwd: string
  envs: Record<string, string>
  /** Under which clients find it among the processes. */
  tag?: string
}

export type CommandOutput = { stream: 'stdout' | 'stderr'; data: Buffer }
export type CommandEnd = { exitCode: number; status: string }

export type InitializeOptions = {
  deadlineMs: number
  /** Needed once the agent has a token: only who knows it may change anything. */
  currentToken?: string
  signal?: AbortSignal
}

export interface AgentPort {
  /** Waits until the agent answers, then hands it its identity, or the parts of it that change. */
  initialize(agent: Endpoint, identity: Partial<AgentIdentity>, options: InitializeOptions): Promise<void>
  /** False also when `signal` aborts first. */
  isHealthy(agent: Endpoint, options?: { withinMs?: number; signal?: AbortSignal }): Promise<boolean>
  /**
   * Resolves with how the command ended. When `signal` aborts, nobody listens any more, but the command goes on.
   * Rejects with `unprocessable` and the agent's words when it could not be started.
   */
  run(
    agent: Endpoint,
    accessToken: string,
    command: AgentCommand,
    options: { onOutput?: (output: CommandOutput) => void; signal: AbortSignal },
  ): Promise<CommandEnd>
  /** As root; folders above are made. */
  writeFile(
    agent: Endpoint,
    accessToken: string,
    path: string,
    body: Readable,
    signal: AbortSignal,
  ): Promise<void>
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
