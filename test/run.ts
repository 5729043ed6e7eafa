/**
 * `npm test`: the checks and tests of the whole project, on a machine that is prepared for them first. Ends
 * with one line of counts; the exit code is not 0 when anything failed, or was skipped where nothing may be.
 */
import { spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { prepareTests } from './support/prepare-tests.ts'
import { type FileCounts, runFiles } from './support/run-files.ts'

const repoFolder = resolve(import.meta.dirname, '..')
const everythingRequired = Boolean(process.env.CI || process.env.WARREN_TEST_REQUIRE)

function check(title: string, command: string, args: string[]): FileCounts {
  process.stdout.write(`\n# ${title}\n`)
  const started = Date.now()
  const { status } = spawnSync(join(repoFolder, 'node_modules/.bin', command), args, {
    cwd: repoFolder,
    stdio: 'inherit',
  })
  const failures = status === 0 ? [] : [{ name: `${command} ended with ${status}`, why: '' }]
  const failed = failures.length
  return { file: title, ms: Date.now() - started, passed: 1 - failed, failed, skipped: 0, failures }
}

async function runTests(title: string, files: string[], concurrency: number): Promise<FileCounts[]> {
  process.stdout.write(`\n# ${title}\n`)
  return await runFiles(files, { concurrency, base: repoFolder })
}

/** Given on the command line: only these, without the checks. */
const chosen = process.argv.slice(2).map((file) => resolve(file))
const find = (pattern: string) =>
  globSync(pattern, { cwd: repoFolder })
    .map((file) => join(repoFolder, file))
    .sort()

async function everything(): Promise<FileCounts[]> {
  if (chosen.length > 0) return await runTests('Chosen tests', chosen, 1)
  const checks = [check('Format and lint', 'biome', ['check', '.']), check('Types', 'tsc', ['--noEmit'])]
  const units = await runTests('Unit tests', find('src/**/*.test.ts'), availableParallelism())
  // One file at a time: each starts Warrens of its own, and some count everything on the machine.
  const whole = find('test/**/*.test.ts').filter((file) => !file.includes('/test/bench/'))
  return [...checks, ...units, ...(await runTests('Tests of the whole', whole, 1))]
}

const longestReason = 4000

/** What a reader of the last lines needs: where the time went, and what failed and why. */
function summarize(results: FileCounts[]): void {
  const slowest = results.toSorted((a, b) => b.ms - a.ms).slice(0, 8)
  process.stdout.write('\nSlowest files:\n')
  for (const { file, ms } of slowest) process.stdout.write(`  ${(ms / 1000).toFixed(0)} s  ${file}\n`)
  const failed = results.filter(({ failures }) => failures.length > 0)
  if (failed.length > 0) process.stdout.write('\nFailed:\n')
  for (const { file, failures } of failed) {
    for (const { name, why } of failures) {
      process.stdout.write(`  ${file}: ${name}\n`)
      if (why) process.stdout.write(`${why.slice(0, longestReason).replaceAll(/^/gm, '    ')}\n`)
    }
  }
}

await prepareTests()
const results = await everything()
summarize(results)
const sum = (name: 'passed' | 'failed' | 'skipped') =>
  results.reduce((total, counts) => total + counts[name], 0)
const [passed, failed, skipped] = [sum('passed'), sum('failed'), sum('skipped')]
if (skipped > 0 && everythingRequired) {
  process.stdout.write('\nSkipped tests count as failures here: CI or WARREN_TEST_REQUIRE is set.\n')
}
process.stdout.write(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`)
process.exit(failed > 0 || passed === 0 || (skipped > 0 && everythingRequired) ? 1 : 0)
