import assert from 'node:assert/strict'
import { test } from 'node:test'
import { idleShare, readCpuTimes } from './support/cpu-times.ts'
import { type Counts, type Job, type JobResult, maxFlaky, repeatFailed, runJobs } from './support/jobs.ts'
import { judge, summarize } from './support/summary.ts'

const good: Counts = { passed: 2, failed: 0, skipped: 0, failures: [] }
const bad: Counts = {
  passed: 1,
  failed: 1,
  skipped: 0,
  failures: [{ name: 'a › b', why: 'Error: told why' }],
}

type Steps = (write: (text: string) => void) => Promise<Counts>

function jobOf(name: string, steps: Steps, lock?: string): Job {
  const job: Job = {
    name,
    lock,
    repeatable: true,
    run: async (write) => [{ ...(await steps(write)), job, ms: 0 }],
  }
  return job
}

/** Answers with one outcome after the other; asked more often, the test fails. */
const jobWith = (name: string, ...outcomes: Counts[]): Job =>
  jobOf(name, async () => outcomes.shift() ?? assert.fail(`${name} ran too often`))

async function run(jobs: Job[], options: { required?: boolean; concurrency?: number } = {}) {
  let printed = ''
  const write = (text: string) => {
    printed += text
  }
  const first = await runJobs(jobs, { concurrency: options.concurrency ?? 1, write })
  const outcome = await repeatFailed(first, write)
  const summary = summarize([{ title: 'All', ms: 61_000, idle: 0.256 }], outcome)
  return { printed, summary, ...outcome, verdict: judge(outcome, options.required ?? false) }
}

test('a job that fails and then passes is reported as flaky with the first reason, and the run passes', async () => {
  const { verdict, summary } = await run([jobWith('steady', good), jobWith('shaky', bad, good)])
  assert.equal(verdict.good, true)
  assert.equal(verdict.lastLine, '4 passed, 0 failed')
  assert.match(summary, /\nFlaky.*:\n {2}shaky: a › b\n {4}Error: told why\n/)
  assert.doesNotMatch(summary, /Failed:|steady: /)
})

test('a job that fails twice fails the run', async () => {
  const { verdict, summary, flaky } = await run([jobWith('steady', good), jobWith('broken', bad, bad)])
  assert.equal(verdict.good, false)
  assert.equal(verdict.lastLine, '3 passed, 1 failed')
  assert.deepEqual(flaky, [])
  assert.match(summary, /\nFailed:\n {2}broken: a › b\n {4}Error: told why\n/)
})

test('a few flaky jobs are accepted, and more fail the run', async () => {
  const shaky = (count: number) => Array.from({ length: count }, (_, at) => jobWith(`shaky ${at}`, bad, good))
  assert.equal((await run(shaky(maxFlaky))).verdict.good, true)
  const { verdict, flaky } = await run(shaky(maxFlaky + 1))
  assert.equal(flaky.length, 9)
  assert.equal(verdict.good, false)
  assert.deepEqual(verdict.reasons, ['9 files are flaky: more than 8 fail the run.'])
})

test('of a job with several files only the one that failed runs again, alone', async () => {
  const files = [jobWith('a'), jobWith('b', good), jobWith('c')]
  const group: Job = {
    name: 'group',
    repeatable: true,
    run: async () => files.map((job, at): JobResult => ({ ...(at === 1 ? bad : good), job, ms: 0 })),
  }
  const { verdict, flaky } = await run([group])
  assert.deepEqual(
    flaky.map(({ job }) => job.name),
    ['b'],
  )
  assert.equal(verdict.lastLine, '6 passed, 0 failed')
})

test('failed files run again only after all others, and one at a time', async () => {
  const order: string[] = []
  let running = 0
  const recorded = (name: string, ...outcomes: Counts[]) =>
    jobOf(name, async () => {
      order.push(name)
      running += 1
      await new Promise(setImmediate)
      assert.ok(running === 1 || order.length <= 3, 'two jobs ran again beside each other')
      running -= 1
      return outcomes.shift()!
    })
  const jobs = [recorded('a', bad, good), recorded('b', bad, good), recorded('c', good)]
  await run(jobs, { concurrency: 2 })
  assert.deepEqual(order, ['a', 'b', 'c', 'a', 'b'])
})

test('jobs with the same lock do not run beside each other while others wait', async () => {
  const order: string[] = []
  const locked = new Set<string>()
  const holding = (name: string, lock?: string) =>
    jobOf(
      name,
      async () => {
        order.push(name)
        if (lock) assert.ok(!locked.has(lock), `${name} runs beside another with its lock`)
        if (lock) locked.add(lock)
        for (let turn = 0; turn < (lock ? 9 : 3); turn++) await new Promise(setImmediate)
        if (lock) locked.delete(lock)
        return good
      },
      lock,
    )
  const jobs = [holding('a', 'x'), holding('b', 'x'), holding('c'), holding('d'), holding('e')]
  await run(jobs, { concurrency: 2 })
  assert.deepEqual(order.slice(0, 2), ['a', 'c'])
  assert.equal(order.length, 5)
})

test('jobs beside each other have seats of their own', async () => {
  const usedSeats = new Set<number>()
  const sitting = (name: string): Job => {
    const job: Job = {
      name,
      repeatable: true,
      async run(_, seat) {
        assert.ok(!usedSeats.has(seat), `${name} has the seat of another`)
        usedSeats.add(seat)
        await new Promise(setImmediate)
        usedSeats.delete(seat)
        return [{ ...good, job, ms: seat }]
      },
    }
    return job
  }
  const { results } = await run(['a', 'b', 'c', 'd', 'e'].map(sitting), { concurrency: 2 })
  assert.deepEqual(
    results.map(({ ms }) => ms),
    [0, 1, 0, 1, 0],
  )
})

test('a check is not run again, and nothing is if nearly all failed', async () => {
  const check = { ...jobWith('types', bad), repeatable: false }
  const found = await check.run(() => {}, 0)
  const { results, flaky } = await repeatFailed([{ ...found[0]!, job: check }], () => {})
  assert.deepEqual([results.length, results[0]!.failed, flaky], [1, 1, []])
  const all = Array.from({ length: 21 }, (_, at) => jobWith(`broken ${at}`, bad))
  assert.equal((await run(all)).verdict.lastLine, '21 passed, 21 failed')
})

test('a skipped test is reported in the last line, and fails the run if everything is required', async () => {
  const skipping = () => jobWith('part', { ...good, skipped: 1 })
  const { verdict } = await run([skipping()])
  assert.deepEqual(verdict, { good: true, reasons: [], lastLine: '2 passed, 0 failed, 1 skipped' })
  assert.equal((await run([skipping()], { required: true })).verdict.good, false)
})

test('a run in which nothing passed fails', async () => {
  assert.equal((await run([])).verdict.good, false)
})

test('the summary shows the time by phase and by file, and the unused CPU time', async () => {
  const { summary } = await run([jobWith('steady', good)])
  const phase = ' {5}61 s {3}26 % idle {2}All'
  assert.match(
    summary,
    new RegExp(`Where the time went:\\n${phase}\\n\\nSlowest files:\\n {6}0 s {2}steady\\n`),
  )
})

test('the idle share is the time that neither a process nor the kernel used, including waits for disks', () => {
  const stat = (...ticks: number[]) => `cpu  ${ticks.join(' ')}\ncpu0 1 1 1 1 1 1 1 1 1 1\n`
  const before = readCpuTimes(stat(100, 0, 50, 1000, 0, 0, 0, 0, 70, 0))
  const after = readCpuTimes(stat(130, 10, 80, 1015, 5, 5, 5, 0, 90, 0))
  assert.equal(idleShare(before, after), 0.2)
  assert.equal(idleShare(after, after), 0)
})

test('the output of each job is printed as a whole when jobs run beside each other', async () => {
  const talking = (name: string) =>
    jobOf(name, async (write) => {
      write(`${name} 1\n`)
      await new Promise(setImmediate)
      write(`${name} 2\n`)
      return good
    })
  const { printed } = await run([talking('a'), talking('b')], { concurrency: 2 })
  assert.equal(printed, '\n## a\na 1\na 2\n\n## b\nb 1\nb 2\n')
})

test('a lane of its own gets more slots once the others have ended', async () => {
  const others = Promise.withResolvers<void>()
  const together = Promise.withResolvers<void>()
  let running = 0
  let max = 0
  const countedAs = (name: string, steps: () => Promise<void>) =>
    jobOf(name, async () => {
      max = Math.max(max, ++running)
      await steps()
      running--
      return good
    })
  const jobs = [
    countedAs('alone', async () => assert.equal(running, 1)),
    countedAs('first', async () => {
      others.resolve()
      await together.promise
    }),
    countedAs('second', async () => together.resolve()),
  ]
  const results = await runJobs(jobs, {
    concurrency: 1,
    more: { after: others.promise, concurrency: 1 },
    write: () => {},
  })
  assert.deepEqual([results.length, max], [3, 2])
})
