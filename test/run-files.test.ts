import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { runJobs } from './support/jobs.ts'
import { fileJob, groupJob } from './support/run-files.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-run-files-'))
after(() => rmSync(folder, { recursive: true }))

async function outcome(source: string, silentMs?: number) {
  const path = join(folder, 'sample.test.mjs')
  writeFileSync(path, `import { suite, test } from 'node:test'\n${source}`)
  let printed = ''
  const write = (text: string) => {
    printed += text
  }
  const environment = async () => ({ SAMPLE: 'told' })
  const job = fileJob({ name: 'sample.test.mjs', path, environment, ...(silentMs && { silentMs }) })
  const [result] = await runJobs([job], { concurrency: 2, write })
  const { passed, failed, skipped, failures } = result!
  return { passed, failed, skipped, failures, printed }
}

test('tests are counted, and failed ones are named with the reason', async () => {
  const source = `suite('a', () => {
    test('good', () => {})
    test('bad', () => { throw new Error('told why') })
    test('left out', { skip: 'why' }, () => {})
  })`
  const { printed, failures, ...counts } = await outcome(source)
  assert.deepEqual(counts, { passed: 1, failed: 1, skipped: 1 })
  assert.deepEqual(
    failures.map(({ name }) => name),
    ['a › bad'],
  )
  assert.match(failures[0]!.why, /^Error: told why\n +at .*sample\.test\.mjs/)
  assert.match(printed, /## sample\.test\.mjs\n[\s\S]*✖ bad/)
})

test('a file sees the variables that its job gives it', async () => {
  const { passed } = await outcome(`test('told', () => { if (process.env.SAMPLE !== 'told') throw Error() })`)
  assert.equal(passed, 1)
})

test('a file whose environment cannot be prepared fails, with the reason', async () => {
  const environment = () => Promise.reject(new Error('no server'))
  const job = fileJob({ name: 'sample', path: 'nowhere', environment })
  const [result] = await runJobs([job], { concurrency: 1, write: () => {} })
  assert.deepEqual([result!.failed, result!.failures], [1, [{ name: 'could not be run', why: 'no server' }]])
})

test('a file whose process cannot be started fails, and the others run', async () => {
  const job = fileJob({ name: 'sample', path: 'nowhere', environment: async () => ({ BROKEN: 'a\0b' }) })
  const [result] = await runJobs([job], { concurrency: 1, write: () => {} })
  assert.deepEqual([result!.failed, result!.failures[0]!.name], [1, 'could not be run'])
})

test('open handles of a test do not keep its file from ending', async () => {
  const source = `import { spawn } from 'node:child_process'
    test('untidy', () => {
      setInterval(() => {}, 1000)
      spawn('sleep', ['5'], { stdio: 'inherit' })
    })`
  const { printed: _, ...counts } = await outcome(source)
  assert.deepEqual(counts, { passed: 1, failed: 0, skipped: 0, failures: [] })
})

test('a file that hangs, breaks off or has no tests fails', async () => {
  const hanging = await outcome(`test('waits', () => new Promise(() => setInterval(() => {}, 1000)))`, 3000)
  assert.equal(hanging.failed, 1)
  assert.match(hanging.printed, /It hangs: [\s\S]*"timer"/)
  assert.match(hanging.failures[0]!.name, /^ended with SIGKILL after \d+ ms$/)
  assert.match((await outcome(`process.exit(3)`)).failures[0]!.name, /^ended with 3/)
  assert.equal((await outcome('')).failed, 1)
})

test('a slow file that makes progress is not ended', async () => {
  const slow = await outcome(
    `for (const name of ['one', 'two']) test(name, () => new Promise((resolve) => setTimeout(resolve, 3000)))`,
    5000,
  )
  assert.equal(slow.passed, 2)
})

async function groupOutcome(...sources: string[]) {
  const files = sources.map((source, at) => {
    const path = join(folder, `part-${at}.test.mjs`)
    writeFileSync(path, `import { test } from 'node:test'\n${source}`)
    return { name: `part ${at}`, path }
  })
  const results = await runJobs([groupJob('all parts', files)], { concurrency: 2, write: () => {} })
  return results.map(({ job, passed, failed, failures }) => [job.name, passed, failed, failures[0]?.name])
}

test('files that share a process have results of their own', async () => {
  const found = await groupOutcome(
    `test('good', () => {})`,
    `test('bad', () => { throw new Error('why') })`,
    `test('one', () => {})\ntest('two', () => {})`,
  )
  assert.deepEqual(found, [
    ['part 0', 1, 0, undefined],
    ['part 1', 0, 1, 'bad'],
    ['part 2', 2, 0, undefined],
  ])
})

test('tests of a suite in files that share a process are counted, and fail the run', async () => {
  const suite = `import { test } from 'node:test'
    export const good = () => test('good in a suite', () => {})
    export const bad = () => test('bad in a suite', () => { throw new Error('why') })`
  writeFileSync(join(folder, 'suite.mjs'), suite)
  const using = (name: string) => `import { ${name} } from './suite.mjs'\n${name}()\ntest('own', () => {})`
  assert.deepEqual(await groupOutcome(using('good'), using('bad')), [
    ['part 0', 1, 0, undefined],
    ['part 1', 1, 0, undefined],
    ['all parts', 1, 1, 'bad in a suite'],
  ])
})

test('a file that breaks the shared process, cannot be loaded or has no tests fails', async () => {
  const breaking = await groupOutcome(`test('good', () => {})`, `test('ends', () => process.exit(3))`)
  assert.equal(breaking.length, 1)
  assert.match(String(breaking[0]![3]), /^ended with 3 after \d+ ms$/)
  const unloaded = await groupOutcome(`test('good', () => {})`, `import './nowhere.mjs'`)
  assert.ok(
    unloaded.some(([, , failed]) => failed === 1),
    JSON.stringify(unloaded),
  )
  assert.deepEqual((await groupOutcome(`test('good', () => {})`, '')).at(-1), [
    'part 1',
    0,
    1,
    'has no tests',
  ])
})
