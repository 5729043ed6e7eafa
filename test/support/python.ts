/** Programs in Python that use one release of the client each. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, type Warren } from './warren.ts'

/** A Python with just the given package, made once and kept in the cache folder. */
export function pythonWith(requirement: string): string {
  const folder = join(cacheFolder, `python-${requirement.replaceAll(/[^a-z0-9.]+/gi, '-')}`)
  const python = join(folder, 'bin/python')
  const complete = join(folder, 'complete')
  if (!existsSync(complete)) {
    execFileSync('python3', ['-m', 'venv', '--clear', folder], { stdio: 'pipe' })
    execFileSync(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', requirement], {
      stdio: 'pipe',
    })
    writeFileSync(complete, '')
  }
  return python
}

const runWithinMs = 1_800_000
const runAndLeave = join(import.meta.dirname, 'run_and_leave.py')

/** The command line of a script that uses the given release of the client. */
export function pythonCommand(version: string, script: string, ...args: string[]): [string, string[]] {
  return [pythonWith(`e2b==${version}`), [runAndLeave, script, ...args]]
}

/** Runs a script of test/e2e/python against a Warren; it must end well. */
export function runPython(warren: Warren, version: string, script: string, ...args: string[]): void {
  printedBy(warren, version, script, ...args)
}

/** The same, for what it printed. */
export function printedBy(warren: Warren, version: string, script: string, ...args: string[]): string {
  const path = join(import.meta.dirname, '../e2e/python', script)
  const run = spawnSync(...pythonCommand(version, path, ...args), {
    env: { ...process.env, ...warren.environment },
    encoding: 'utf8',
    timeout: runWithinMs,
  })
  assert.equal(run.status, 0, `${run.signal ?? ''}${run.stdout}${run.stderr}`)
  // A script of unittest cases that found none would end well too.
  if (path.endsWith('_test.py')) assert.match(run.stderr, /Ran [1-9]\d* test/)
  return run.stdout
}
