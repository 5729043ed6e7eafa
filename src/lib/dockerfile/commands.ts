/** Commands of RUN, CMD and ENTRYPOINT as one text for a shell. */
import { listOf, type Refuse, shellJoin, shellQuote } from './words.ts'

/** A command in one of its two forms: a list of words, or a text for a shell. */
export type DockerCommand = { list: string[] } | { text: string }

export function commandOf(rest: string, shell: readonly string[], refuse: Refuse): DockerCommand {
  const list = listOf(rest, refuse)
  return list ? { list } : { text: inShell(rest, shell) }
}

/** The server's default shell, for Dockerfiles without a SHELL instruction. */
export function inShell(text: string, shell: readonly string[]): string {
  return shell.length === 0 ? text : shellJoin([...shell, text])
}

/** A CMD after an ENTRYPOINT of words is its arguments. An ENTRYPOINT that is a text for a shell takes none. */
export function startCommand(
  entry: DockerCommand | undefined,
  cmd: DockerCommand | undefined,
): string | null {
  if (entry && 'text' in entry) return entry.text
  const before = entry?.list ?? []
  if (!cmd) return shellJoin(before) || null
  if ('list' in cmd) return shellJoin([...before, ...cmd.list]) || null
  return before.length === 0 ? cmd.text : shellJoin([...before, '/bin/sh', '-c', cmd.text])
}

/** A heredoc that begins with `#!` is a program; any other heredoc is a script for the shell. */
export function scriptOf(body: string): string {
  if (!body.startsWith('#!')) return body
  const write = `script=$(mktemp) && printf %s ${shellQuote(body)} > "$script" && chmod 700 "$script"`
  return `${write} && "$script"; status=$?; rm -f "$script"; exit $status`
}
