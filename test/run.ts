/**
 * `npm test`: the checks and tests of the whole project, on a machine that is prepared for them first. Ends
 * with one line of counts; the exit code is not 0 when anything failed, or was skipped where nothing may be.
 */
import { spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { prepareTests } from './support/prepare-tests.ts'

const repoFolder = resolve(import.meta.dirname, '..')
const everythingRequired = Boolean(process.env.CI || process.env.WARREN_TEST_REQUIRE)

/** A file that hangs must not hold up the rest. */
const fileWithinMs = 15 * 60_000

type Counts = { passed: number; failed: number; skipped: number }

function check(title: string, command: string, args: string[]): Counts {
  process.stdout.write(`\n# ${title}\n`)
  const { status } = spawnSync(join(repoFolder, 'node_modules/.bin', command), args, {
    cwd: repoFolder,
    stdio: 'inherit',
  })
  return { passed: status === 0 ? 1 : 0, failed: status === 0 ? 0 : 1, skipped: 0 }
}

async function runTests(title: string, files: string[], concurrency: number): Promise<Counts> {
  process.stdout.write(`\n# ${title}\n`)
  const counts = { passed: 0, failed: 0, skipped: 0 }
  const stream = run({ files, concurrency, cwd: repoFolder, timeout: fileWithinMs })
  stream.on('test:summary', ({ file, counts: all }) => {
    if (file !== undefined) return
    counts.passed = all.passed
    counts.failed = all.topLevel === 0 ? 1 : all.tests - all.passed - all.skipped - all.todo
    counts.skipped = all.skipped
  })
  for await (const chunk of stream.compose(new spec())) process.stdout.write(chunk)
  return counts
}

/** Given on the command line: only these, without the checks. */
const chosen = process.argv.slice(2).map((file) => resolve(file))
const find = (pattern: string) =>
  globSync(pattern, { cwd: repoFolder })
    .map((file) => join(repoFolder, file))
    .sort()

async function everything(): Promise<Counts[]> {
  if (chosen.length > 0) return [await runTests('Chosen tests', chosen, 1)]
  const results = [
    check('Format and lint', 'biome', ['check', '.']),
    check('Types', 'tsc', ['--noEmit']),
    await runTests('Unit tests', find('src/**/*.test.ts'), availableParallelism()),
  ]
  // One file at a time: each starts Warrens of its own, and some count everything on the machine.
  const whole = find('test/**/*.test.ts').filter((file) => !file.includes('/test/bench/'))
  return [...results, await runTests('Tests of the whole', whole, 1)]
}

await prepareTests()
const results = await everything()
const sum = (name: keyof Counts) => results.reduce((total, counts) => total + counts[name], 0)
const [passed, failed, skipped] = [sum('passed'), sum('failed'), sum('skipped')]
if (skipped > 0 && everythingRequired) {
  process.stdout.write('\nSkipped tests count as failures here: CI or WARREN_TEST_REQUIRE is set.\n')
}
process.stdout.write(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`)
process.exit(failed > 0 || passed === 0 || (skipped > 0 && everythingRequired) ? 1 : 0)
