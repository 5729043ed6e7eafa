/** The program that is started in every sandbox. */
export type AgentProgram = {
  /** Bind-mounted read-only at `agentMount` of layout.ts. */
  folder: string
  /** Runs as pid 1. */
  command: readonly string[]
  /**
   * The same command by a file that nobody inside may read: Linux lets nobody trace a program that they may
   * not read. gVisor cannot start such a file, and lets nobody trace pid 1 anyway.
   */
  unreadableCommand?: readonly string[]
  env: Record<string, string>
  /**
   * A program inside that sets the host name given as its last argument, for memory that was restored under
   * another name.
   */
  setHostname?: readonly string[]
  /** A program inside that makes system calls and processes and ends; platforms are compared by its cost. */
  sampleWork?: readonly string[]
}
