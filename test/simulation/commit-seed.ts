/** What a commit chooses: every commit goes through new histories and its turn of slow files, and every run of it through the same ones. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** Below 2^30, so that some thousand seeds after it are seeds too. */
export function commitSeed(): { first: number; from: string } {
  const commit = readCommit()
  const from = commit === undefined ? 'the sources' : `commit ${commit.slice(0, 12)}`
  const hash = commit ?? hashOfSources()
  return { first: Number.parseInt(hash.slice(0, 8), 16) % 2 ** 30, from }
}

export const commitTurn = (): 0 | 1 => (commitSeed().first % 2 === 0 ? 0 : 1)

/** Undefined outside a repository, as in a release. */
function readCommit(): string | undefined {
  try {
    const options = { cwd: root, encoding: 'utf8' as const, stdio: 'pipe' as const }
    return execFileSync('git', ['rev-parse', 'HEAD'], options).trim()
  } catch {
    return undefined
  }
}

function hashOfSources(): string {
  const hash = createHash('sha256')
  for (const folder of ['src', 'test/simulation']) {
    const files = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    for (const file of files.filter((name) => name.endsWith('.ts')).sort())
      hash.update(file).update(readFileSync(join(root, folder, file)))
  }
  return hash.digest('hex')
}
