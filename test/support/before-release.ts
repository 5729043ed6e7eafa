/**
 * Releases for tests of upgrades. The one before is made from the commit in test/long/before-release.json, in a
 * worktree of its own, and kept in the cache folder; WARREN_TEST_RELEASE_BEFORE names an archive to use instead.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../../src/lib/run-command.ts'
import { repoFolder } from './warren.ts'

const releases = join(repoFolder, '.cache/releases')
const makeWithinMs = 10 * 60_000

/** The path of the archive. */
export async function beforeRelease(): Promise<string> {
  const given = process.env.WARREN_TEST_RELEASE_BEFORE
  if (given !== undefined) return given
  const { commit } = JSON.parse(readFileSync(join(repoFolder, 'test/long/before-release.json'), 'utf8')) as {
    commit: string
  }
  const archive = join(releases, `warren-${commit}.tar.gz`)
  if (!existsSync(archive)) await makeReleaseOf(commit, archive)
  return archive
}

async function makeReleaseOf(commit: string, archive: string): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), 'warren-before-'))
  const tree = join(work, 'tree')
  const git = (...args: string[]) => runCommand('git', ['-C', repoFolder, ...args])
  try {
    await git('worktree', 'add', '--detach', tree, commit)
    await bringPackages(tree)
    const options = { cwd: tree, timeoutMs: makeWithinMs }
    await runCommand(join(tree, 'bin/node'), ['src/app/release/make-release.ts'], options)
    const { version } = JSON.parse(readFileSync(join(tree, 'package.json'), 'utf8')) as { version: string }
    mkdirSync(releases, { recursive: true })
    // Moved at the end, because another test may make the same.
    const partial = `${archive}.${process.pid}.partial`
    await runCommand('cp', [join(tree, 'dist', `warren-${version}-${process.arch}.tar.gz`), partial])
    await rename(partial, archive)
  } finally {
    await git('worktree', 'remove', '--force', tree).catch(() => {})
    rmSync(work, { recursive: true, force: true })
  }
}

/** Those of this checkout, if that commit wants the same. */
async function bringPackages(tree: string): Promise<void> {
  const lock = (folder: string) => readFileSync(join(folder, 'package-lock.json'), 'utf8')
  if (lock(tree) === lock(repoFolder))
    symlinkSync(join(repoFolder, 'node_modules'), join(tree, 'node_modules'))
  else await runCommand(join(tree, 'bin/install-packages'), [], { cwd: tree, timeoutMs: makeWithinMs })
}

/** Unpacks a release into a folder, and returns its launcher. */
export async function unpackRelease(archive: string, folder: string): Promise<string> {
  mkdirSync(folder, { recursive: true })
  await runCommand('tar', ['-xzf', archive, '-C', folder, '--strip-components=1'])
  return join(folder, 'bin/warren')
}
