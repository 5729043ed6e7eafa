/** Whom a process runs as, and whether it gets a terminal: the words that make a program so. */
import type { SpawnOptions } from 'node:child_process'
import type { Account } from '../accounts.ts'
import { searchExecutable } from './search-path.ts'

/** What the agent brings along: programs, each as the words that start it, and the path of an addon. */
export type Tools = {
  setpriv: readonly string[]
  setsid: readonly string[]
  env: readonly string[]
  addon: string
}

export type Command = { words: string[]; options: SpawnOptions }

/**
 * Node can set user and group but drops the supplementary groups, and can make a session but no terminal its
 * own. What it cannot, setpriv and setsid do; both become the program in the end, which keeps the pid.
 */
export function commandFor(
  words: readonly string[],
  account: Account,
  env: Record<string, string>,
  cwd: string,
  tools: Tools,
  hasTerminal: boolean,
): Command {
  const isRoot = account.uid === 0 && account.gid === 0
  const needsSetpriv = !isRoot && (hasTerminal || account.groups.length > 0)
  if (!needsSetpriv && !hasTerminal) {
    const ids = isRoot ? {} : { uid: account.uid, gid: account.gid }
    return { words: [...words], options: { env, detached: true, ...ids } }
  }
  const program = searchExecutable(words[0]!, env.PATH ?? '', cwd)
  // What steers the image's own loader would break ours: such variables are set last, by env.
  const [forLoader, plain] = partition(env, (name) => /^(LD_|GLIBC_TUNABLES$)/.test(name))
  const assignments = Object.entries(forLoader).map(([name, value]) => `${name}=${value}`)
  return {
    words: [
      ...(hasTerminal ? [...tools.setsid, '--ctty', '--'] : []),
      ...(needsSetpriv ? [...tools.setpriv, ...identityOptions(account), '--'] : []),
      ...(assignments.length > 0 ? [...tools.env, ...assignments] : []),
      program,
      ...words.slice(1),
    ],
    // setsid makes the session itself; were it done already, it would have to fork.
    options: { env: plain, detached: !hasTerminal },
  }
}

function identityOptions({ uid, gid, groups }: Account): string[] {
  return ['--reuid', `${uid}`, '--regid', `${gid}`, '--groups', [gid, ...groups].join()]
}

function partition(env: Record<string, string>, test: (name: string) => boolean) {
  const entries = Object.entries(env)
  return [
    Object.fromEntries(entries.filter(([name]) => test(name))),
    Object.fromEntries(entries.filter(([name]) => !test(name))),
  ] as const
}
