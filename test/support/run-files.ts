/** Jobs that run test files in a process, which ends for certain, and count what they found. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CountsOfFiles } from './counting-reporter.ts'
import type { Counts, Job, Write } from './jobs.ts'

/** Time without a finished test after which a file counts as hanging. A slow file reports each test as it ends. */
const maxSilentMs = 15 * 60_000
const reporter = join(import.meta.dirname, 'counting-reporter.ts')

export type FileJobOptions = {
  name: string
  path: string
  /** Asked for when the job runs, for the seat that it has then. */
  environment?: (seat: number) => Promise<Record<string, string>>
  lock?: string | undefined
  /** So long without a word, and it hangs. */
  silentMs?: number
}

export function fileJob(options: FileJobOptions): Job {
  const { name, path, environment = async () => ({}), lock, silentMs = maxSilentMs } = options
  const job: Job = {
    name,
    repeatable: true,
    lock,
    async run(write, seat) {
      const started = Date.now()
      const counts = await environment(seat)
        .then(async (given) => {
          const { files, problem } = await runProcess([path], { write, environment: given, silentMs })
          return judgeFile(files, problem)
        })
        .catch(notRun)
      return [{ ...counts, job, ms: Date.now() - started }]
    },
  }
  return job
}

function notRun({ message }: Error): Counts {
  const failures = [{ name: 'could not be run', why: message }]
  return { passed: 0, failed: 1, skipped: 0, failures }
}

/** All in one process, since starting one takes longer than most of them. Each file has its own result. */
export function groupJob(name: string, files: FileJobOptions[]): Job {
  const job: Job = {
    name,
    repeatable: true,
    async run(write) {
      const started = Date.now()
      const paths = files.map(({ path }) => path)
      const { files: found, problem } = await runProcess(paths, { write, silentMs: maxSilentMs })
      const broken = problem !== undefined && !Object.values(found).some(({ failed }) => failed > 0)
      if (broken) return [{ ...judgeFile(found, problem), job, ms: Date.now() - started }]
      const results = files.map((file) => {
        const own = found[file.path]
        return { ...judgeFile(own ? { own } : {}, undefined), job: fileJob(file), ms: own?.ms ?? 0 }
      })
      // A test is reported with the file that calls it, which may be the file of a suite.
      const inSuites = Object.entries(found).filter(
        ([path, counts]) => !paths.includes(path) && hasAny(counts),
      )
      if (inSuites.length === 0) return results
      return [...results, { ...judgeFile(Object.fromEntries(inSuites), undefined), job, ms: 0 }]
    },
  }
  return job
}

const hasAny = ({ passed, failed, skipped, failures }: Counts) =>
  passed + failed + skipped + failures.length > 0

type ProcessOptions = { write: Write; environment?: Record<string, string>; silentMs: number }
/** `problem` says how the process ended, if not well. */
type Found = { files: CountsOfFiles; problem: string | undefined }

async function runProcess(paths: string[], { write, environment, silentMs }: ProcessOptions): Promise<Found> {
  const folder = mkdtempSync(join(tmpdir(), 'warren-test-counts-'))
  const countsFile = join(folder, 'counts.json')
  const started = Date.now()
  const mode = paths.length > 1 ? ['--test', '--test-isolation=none'] : []
  const options = [...mode, ...reporters(countsFile), ...reporting(folder)]
  const child = spawn(process.execPath, [...options, ...paths], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    // With the context of a run around this one, a file would report to that instead of to its reporters.
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...environment },
  })
  const silence = setTimeout(() => endHanging(child, folder, write), silentMs)
  child.stdout.setEncoding('utf8').on('data', (text) => {
    silence.refresh()
    write(text)
  })
  child.stderr.setEncoding('utf8').on('data', write)
  const closed = once(child, 'close')
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
  clearTimeout(silence)
  // A server that outlived its test may hold the pipe open: what has come by now is all.
  await Promise.race([closed, sleep(1000)])
  child.stdout.destroy()
  child.stderr.destroy()
  const files = readCounts(countsFile)
  rmSync(folder, { recursive: true })
  const ending = code === 0 ? undefined : `ended with ${signal ?? code} after ${Date.now() - started} ms`
  return { files: files ?? {}, problem: ending ?? (files ? undefined : 'ended without a result') }
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

function readCounts(countsFile: string): CountsOfFiles | undefined {
  try {
    return JSON.parse(readFileSync(countsFile, 'utf8'))
  } catch {
    return undefined
  }
}

/** A process that ended badly has failed, even if all tests that it told of had passed. */
function judgeFile(files: CountsOfFiles, problem: string | undefined): Counts {
  const all = Object.values(files)
  const sum = (name: 'passed' | 'failed' | 'skipped') => all.reduce((total, each) => total + each[name], 0)
  const [passed, failed, skipped] = [sum('passed'), sum('failed'), sum('skipped')]
  const failures = all.flatMap((each) => each.failures)
  const nothing = passed + failed + skipped === 0 ? 'has no tests' : undefined
  const wrong = failed > 0 ? undefined : (problem ?? nothing)
  if (wrong === undefined) return { passed, failed, skipped, failures }
  return { passed, failed: 1, skipped, failures: [...failures, { name: wrong, why: '' }] }
}
