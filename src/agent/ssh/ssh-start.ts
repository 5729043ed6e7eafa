/** What the agent tells the process of an SSH connection, as the first line of its input. The connection's bytes follow. */
export type SshStart = {
  /** The private host key, as OpenSSH writes it. */
  hostKey: string
  /** The user name that the client gave; SSH's own must be the same. */
  login: string
  shell: string
  /** The environment of every session. */
  env: Record<string, string>
}
