/** Runs test files, each in a process of its own that ends for certain, and counts what they found. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** `why` is empty where the name says it all. */
export type Failure = { name: string; why: string }
export type Counts = { passed: number; failed: number; skipped: number; failures: Failure[] }
export type FileCounts = Counts & { file: string; ms: number }

/** A file that hangs must not hold up the rest. */
const fileWithinMs = 10 * 60_000
const reporter = join(import.meta.dirname, 'counting-reporter.ts')

export type RunOptions = {
  concurrency: number
  /** The folder that names of files are shown from. */
  base: string
  withinMs?: number
  write?: (text: string) => void
}

export async function runFiles(files: string[], options: RunOptions): Promise<FileCounts[]> {
  const { concurrency, base } = options
  const results: FileCounts[] = []
  const waiting = [...files]
  const worker = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      results.push(await runFile(file, relative(base, file), options))
    }
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
  return results
}

async function runFile(path: string, file: string, options: RunOptions): Promise<FileCounts> {
  const { concurrency, withinMs = fileWithinMs, write = (text) => void process.stdout.write(text) } = options
  const folder = mkdtempSync(join(tmpdir(), 'warren-test-counts-'))
  const countsFile = join(folder, 'counts.json')
  const started = Date.now()
  const child = spawn(process.execPath, [...reporters(countsFile), ...reporting(folder), path], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const shown = show(child, `\n## ${file}\n`, concurrency === 1, write)
  const closed = once(child, 'close')
  const late = setTimeout(() => endHanging(child, folder, shown), withinMs)
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
  clearTimeout(late)
  // A server that outlived its test may hold the pipe open: what has come by now is all.
  await Promise.race([closed, sleep(1000)])
  child.stdout.destroy()
  child.stderr.destroy()
  shown.flush()
  const ms = Date.now() - started
  const counts = readCounts(
    countsFile,
    code === 0 ? undefined : `ended with ${signal ?? code} after ${ms} ms`,
  )
  rmSync(folder, { recursive: true })
  return { ...counts, file, ms }
}

const reportName = 'report.json'
const reporting = (folder: string): string[] => [
  '--test-force-exit',
  '--report-on-signal',
  `--report-directory=${folder}`,
  `--report-filename=${reportName}`,
]

/** Asks a process that hangs what it is doing and what it waits for, prints that, and ends its whole group. */
async function endHanging(child: ChildProcess, folder: string, shown: Shown): Promise<void> {
  try {
    child.kill('SIGUSR2')
    await sleep(2000)
    const report = JSON.parse(readFileSync(join(folder, reportName), 'utf8'))
    const waitsFor = report.libuv.filter((handle: { is_active: boolean }) => handle.is_active)
    shown.take(`\nIt hangs: ${JSON.stringify({ stack: report.javascriptStack, waitsFor }, null, 1)}\n`)
  } catch (error) {
    shown.take(`\nIt hangs, and does not say where: ${error}\n`)
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

type Shown = { take(text: string): void; flush(): void }

/** Prints at once, or keeps the lines together while other files run beside this one. */
function show(child: ChildProcess, title: string, live: boolean, write: (text: string) => void): Shown {
  let kept = ''
  const take = (text: string) => {
    if (live) write(text)
    else kept += text
  }
  take(title)
  child.stdout!.setEncoding('utf8').on('data', take)
  child.stderr!.setEncoding('utf8').on('data', take)
  return { take, flush: () => write(kept) }
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
