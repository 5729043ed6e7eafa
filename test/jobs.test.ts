import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Counts, type Job, mostFlaky, repeatFailed, runJobs } from './support/jobs.ts'
import { judge, summarize } from './support/summary.ts'

const good: Counts = { passed: 2, failed: 0, skipped: 0, failures: [] }
const bad: Counts = {
  passed: 1,
  failed: 1,
  skipped: 0,
  failures: [{ name: 'a › b', why: 'Error: told why' }],
}

/** Answers with one outcome after the other; asked more often, the test fails. */
function jobWith(name: string, ...outcomes: Counts[]): Job {
  const run = async () => outcomes.shift() ?? assert.fail(`${name} ran too often`)
  return { name, repeatable: true, run }
}

async function run(jobs: Job[], options: { required?: boolean; concurrency?: number } = {}) {
  let printed = ''
  const write = (text: string) => {
    printed += text
  }
  const outcome = await repeatFailed(await runJobs(jobs, options.concurrency ?? 1, write), write)
  const summary = summarize([{ title: 'All', ms: 61_000 }], outcome)
  return { printed, summary, ...outcome, verdict: judge(outcome, options.required ?? false) }
}

test('a job that fails and then passes is named as flaky with the first reason, and the run is good', async () => {
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

test('three flaky jobs are borne, four fail the run', async () => {
  const shaky = (count: number) => Array.from({ length: count }, (_, at) => jobWith(`shaky ${at}`, bad, good))
  assert.equal((await run(shaky(mostFlaky))).verdict.good, true)
  const { verdict, flaky } = await run(shaky(mostFlaky + 1))
  assert.equal(flaky.length, 4)
  assert.equal(verdict.good, false)
  assert.deepEqual(verdict.reasons, ['4 files are flaky: more than 3 fail the run.'])
})

test('what failed runs again only after all others, and one at a time', async () => {
  const order: string[] = []
  let running = 0
  const recorded = (name: string, ...outcomes: Counts[]): Job => ({
    name,
    repeatable: true,
    async run() {
      order.push(name)
      running += 1
      await new Promise(setImmediate)
      assert.ok(running === 1 || order.length <= 3, 'two jobs ran again beside each other')
      running -= 1
      return outcomes.shift()!
    },
  })
  const jobs = [recorded('a', bad, good), recorded('b', bad, good), recorded('c', good)]
  await run(jobs, { concurrency: 2 })
  assert.deepEqual(order, ['a', 'b', 'c', 'a', 'b'])
})

test('a check is not run again, nor is anything when nearly all failed', async () => {
  const check = { ...jobWith('types', bad), repeatable: false }
  assert.equal((await run([check])).verdict.good, false)
  const all = Array.from({ length: 11 }, (_, at) => jobWith(`broken ${at}`, bad))
  assert.equal((await run(all)).verdict.lastLine, '11 passed, 11 failed')
})

test('a skipped test is told in the last line, and fails the run where everything is required', async () => {
  const skipping = () => jobWith('part', { ...good, skipped: 1 })
  const { verdict } = await run([skipping()])
  assert.deepEqual(verdict, { good: true, reasons: [], lastLine: '2 passed, 0 failed, 1 skipped' })
  assert.equal((await run([skipping()], { required: true })).verdict.good, false)
})

test('a run in which nothing passed is not good', async () => {
  assert.equal((await run([])).verdict.good, false)
})

test('the summary says where the time went, by phase and by file', async () => {
  const { summary } = await run([jobWith('steady', good)])
  assert.match(summary, /Where the time went:\n {5}61 s {2}All\n\nSlowest files:\n {6}0 s {2}steady\n/)
})

test('what jobs beside each other print is kept together', async () => {
  const talking = (name: string): Job => ({
    name,
    repeatable: true,
    async run(write) {
      write(`${name} 1\n`)
      await new Promise(setImmediate)
      write(`${name} 2\n`)
      return good
    },
  })
  const { printed } = await run([talking('a'), talking('b')], { concurrency: 2 })
  assert.equal(printed, '\n## a\na 1\na 2\n\n## b\nb 1\nb 2\n')
})
