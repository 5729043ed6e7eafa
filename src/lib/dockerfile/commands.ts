/** Commands of RUN, CMD and ENTRYPOINT as one text for a shell. */
import { listOf, type Refuse, shellJoin, shellQuote } from './words.ts'

/** In one of its two forms: words, or the text of a shell. */
export type DockerCommand = { list: string[] } | { text: string }

export function commandOf(rest: string, shell: readonly string[], refuse: Refuse): DockerCommand {
  const list = listOf(rest, refuse)
  return list ? { list } : { text: inShell(rest, shell) }
}

/** Without a SHELL instruction, the one that the server takes. */
export function inShell(text: string, shell: readonly string[]): string {
  return shell.length === 0 ? text : shellJoin([...shell, text])
}

/** A CMD behind an ENTRYPOINT of words is its arguments; an ENTRYPOINT of a shell's text takes none. */
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

/** A heredoc with an interpreter of its own is a program; any other is what the shell runs. */
export function scriptOf(body: string): string {
  if (!body.startsWith('#!')) return body
  const write = `script=$(mktemp) && printf %s ${shellQuote(body)} > "$script" && chmod 700 "$script"`
  return `${write} && "$script"; status=$?; rm -f "$script"; exit $status`
}
