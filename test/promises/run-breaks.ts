/**
 * `bin/node test/promises/run-breaks.ts [NAME …]`: breaks one promise after another in a copy of the sources, runs the
 * test that holds it, and says whether that test failed. A test must also pass without the break, or its failure
 * would say nothing.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Break } from './break.ts'
import { breaks } from './breaks.ts'
import { repoFolder } from './page.ts'

const seat = process.env.WARREN_TEST_PLACE ?? '9'
const tests = new Map<string, string | undefined>()

/** The project without what is built from it. Data of sandboxes and the prepared machine are those of the project. */
function copyProject(): string {
  const folder = mkdtempSync(join(tmpdir(), 'warren-broken-'))
  const { stdout } = spawnSync('git', ['ls-files'], { cwd: repoFolder, encoding: 'utf8' })
  const names = new Set(
    stdout
      .trim()
      .split('\n')
      .map((path) => path.split('/')[0]!),
  )
  for (const name of names) cpSync(join(repoFolder, name), join(folder, name), { recursive: true })
  mkdirSync(join(folder, '.cache'))
  for (const name of ['.cache/machine', `.cache/place-${seat}`]) {
    mkdirSync(join(repoFolder, name), { recursive: true })
    symlinkSync(join(repoFolder, name), join(folder, name))
  }
  symlinkSync(join(repoFolder, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

/** Why the test fails, or undefined if it passes. */
function failureOf(
  folder: string,
  { file, title, run = file, isolation = 'container' }: Break,
): string | undefined {
  const pattern = title.replaceAll(/[.*+?^${}()|[\]\\/]/g, '\\$&').replaceAll('…', '.*')
  const options = [
    '--test',
    '--test-reporter=tap',
    '--test-timeout=300000',
    `--test-name-pattern=${pattern}$`,
  ]
  // A test that waits for ever fails at its own limit; its process may still hold something open.
  const args = ['--signal=KILL', '360', join(folder, 'bin/node'), ...options, run]
  const env = {
    ...process.env,
    WARREN_TEST_PLACE: seat,
    WARREN_TEST_SEAT: '1',
    WARREN_TEST_ISOLATION: isolation,
    WARREN_TEST_REQUIRE: '1',
  }
  const { stdout, stderr } = spawnSync('timeout', args, { cwd: folder, env, encoding: 'utf8' })
  // A title that is composed of values names several tests.
  const named = [...stdout.matchAll(new RegExp(`^ *(not )?ok \\d+ - ${pattern}$(?!.*# SKIP)`, 'gm'))]
  if (named.length === 0) throw new Error(`'${title}' did not run in ${run}:\n${stdout}${stderr}`)
  const failed = named.find(([, not]) => not)
  if (!failed) return undefined
  const reason = /^ *error: (?:\|-\n *)?(.*(?:\n.*){0,3})/m.exec(stdout.slice(failed.index))?.[1]
  return reason?.replaceAll(/\s+/g, ' ') ?? 'no reason'
}

function breakAndRun(one: Break): boolean {
  const folder = copyProject()
  try {
    const key = `${one.run ?? one.file} ${one.title} ${one.isolation}`
    if (!tests.has(key)) tests.set(key, failureOf(folder, one))
    const before = tests.get(key)
    if (before !== undefined) {
      console.log(`${one.name}: the test fails without the break too: ${before}`)
      return false
    }
    for (const { file, from, to } of one.edits) {
      const path = join(folder, file)
      const source = readFileSync(path, 'utf8')
      if (source.split(from).length !== 2) throw new Error(`${file} does not contain this once: ${from}`)
      writeFileSync(
        path,
        source.replace(from, () => to),
      )
    }
    const failure = failureOf(folder, one)
    console.log(failure === undefined ? `${one.name}: NOT SEEN` : `${one.name}: seen: ${failure}`)
    return failure !== undefined
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const names = process.argv.slice(2)
const unknown = names.filter((name) => !breaks.some((one) => one.name === name))
if (unknown.length > 0) throw new Error(`There is no break named ${unknown.join(', ')}.`)
const chosen = breaks.filter(({ name }) => names.length === 0 || names.includes(name))
const isMissed = (one: Break) => {
  try {
    return !breakAndRun(one)
  } catch (error) {
    console.log(`${one.name}: ${(error as Error).message}`)
    return true
  }
}
const missed = chosen.filter(isMissed)
console.log(`${chosen.length - missed.length} of ${chosen.length} broken promises were seen.`)
process.exitCode = missed.length > 0 ? 1 : 0
