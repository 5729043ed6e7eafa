/** A job that runs test files in one process, which ends for certain, and counts what they found. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Counts, Job, Write } from './jobs.ts'

/** A file that hangs must not hold up the rest. */
const fileWithinMs = 10 * 60_000
const reporter = join(import.meta.dirname, 'counting-reporter.ts')

export type FileJobOptions = {
  name: string
  path: string
  environment?: Record<string, string>
  withinMs?: number
}

export function fileJob(options: FileJobOptions): Job {
  return { name: options.name, repeatable: true, run: (write) => runFile(options, write) }
}

async function runFile(options: FileJobOptions, write: Write): Promise<Counts> {
  const { path, environment, withinMs = fileWithinMs } = options
  const folder = mkdtempSync(join(tmpdir(), 'warren-test-counts-'))
  const countsFile = join(folder, 'counts.json')
  const started = Date.now()
  const child = spawn(process.execPath, [...reporters(countsFile), ...reporting(folder), path], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    // With the context of a run around this one, a file would report to that instead of to its reporters.
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...environment },
  })
  child.stdout.setEncoding('utf8').on('data', write)
  child.stderr.setEncoding('utf8').on('data', write)
  const closed = once(child, 'close')
  const late = setTimeout(() => endHanging(child, folder, write), withinMs)
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
  clearTimeout(late)
  // A server that outlived its test may hold the pipe open: what has come by now is all.
  await Promise.race([closed, sleep(1000)])
  child.stdout.destroy()
  child.stderr.destroy()
  const counts = readCounts(
    countsFile,
    code === 0 ? undefined : `ended with ${signal ?? code} after ${Date.now() - started} ms`,
  )
  rmSync(folder, { recursive: true })
  return counts
}

const reportName = 'report.json'
const reporting = (folder: string): string[] => [
  '--test-force-exit',
  '--report-on-signal',
  `--report-directory=${folder}`,
  `--report-filename=${reportName}`,
]

/** Asks a process that hangs what it is doing and what it waits for, prints that, and ends its whole group. */
async function endHanging(child: ChildProcess, folder: string, write: Write): Promise<void> {
  try {
    child.kill('SIGUSR2')
    await sleep(2000)
    const report = JSON.parse(readFileSync(join(folder, reportName), 'utf8'))
    const waitsFor = report.libuv.filter((handle: { is_active: boolean }) => handle.is_active)
    write(`\nIt hangs: ${JSON.stringify({ stack: report.javascriptStack, waitsFor }, null, 1)}\n`)
  } catch (error) {
    write(`\nIt hangs, and does not say where: ${error}\n`)
  }
  process.kill(-child.pid!, 'SIGKILL')
}

function reporters(countsFile: string): string[] {
  return [
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    `--test-reporter=${reporter}`,
    `--test-reporter-destination=${countsFile}`,
  ]
}

/** A process that ended badly has failed, even if all tests that it told of had passed. */
function readCounts(countsFile: string, problem: string | undefined): Counts {
  let counts: Counts = { passed: 0, failed: 0, skipped: 0, failures: [] }
  try {
    counts = JSON.parse(readFileSync(countsFile, 'utf8'))
  } catch {
    problem ??= 'ended without a result'
  }
  if (problem !== undefined && counts.failed === 0) {
    counts.failed = 1
    counts.failures.push({ name: problem, why: '' })
  } else if (counts.passed + counts.failed + counts.skipped === 0) {
    counts.failed = 1
    counts.failures.push({ name: 'has no tests', why: '' })
  }
  return counts
}
