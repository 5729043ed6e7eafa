/** The program that a driver starts in every sandbox. */
export type AgentProgram = {
  /** The driver shows it read-only inside the sandbox, where the commands have their paths. */
  folder: string
  /** Runs as pid 1. */
  command: readonly string[]
  /**
   * The same command by a file that nobody inside may read: Linux lets nobody trace a program that they may
   * not read. gVisor cannot start such a file, and lets nobody trace pid 1 anyway.
   */
  unreadableCommand?: readonly string[]
  env: Readonly<Record<string, string>>
  /**
   * A program inside that sets the host name given as its last argument, for memory that was restored under
   * another name.
   */
  setHostname?: readonly string[]
}
