/** The line that `ls -l` in an SFTP client shows for a file. */
import type { Stats } from 'node:fs'
import type { Accounts } from '../accounts.ts'

const kinds: readonly [bits: number, letter: string][] = [
  [0o140000, 's'],
  [0o120000, 'l'],
  [0o100000, '-'],
  [0o060000, 'b'],
  [0o040000, 'd'],
  [0o020000, 'c'],
  [0o010000, 'p'],
]
const kindBits = 0o170000
const months = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ')

export function longName(name: string, stats: Stats, accounts: Accounts): string {
  const kind = kinds.find(([bits]) => (stats.mode & kindBits) === bits)?.[1] ?? '?'
  const permissions = Array.from('rwxrwxrwx', (letter, at) =>
    stats.mode & (0o400 >> at) ? letter : '-',
  ).join('')
  const owner = accounts.userName(stats.uid).padEnd(8)
  const group = accounts.groupName(stats.gid).padEnd(8)
  const { mtime } = stats
  const day = `${months[mtime.getUTCMonth()]} ${String(mtime.getUTCDate()).padStart(2)}`
  const columns = [String(stats.nlink).padStart(3), owner, group, String(stats.size).padStart(8), day]
  return `${kind}${permissions} ${columns.join(' ')} ${String(mtime.getUTCFullYear()).padStart(5)} ${name}`
}
