import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { runJobs } from './support/jobs.ts'
import { fileJob } from './support/run-files.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-run-files-'))
after(() => rmSync(folder, { recursive: true }))

async function outcome(source: string, withinMs?: number) {
  const path = join(folder, 'sample.test.mjs')
  writeFileSync(path, `import { suite, test } from 'node:test'\n${source}`)
  let printed = ''
  const write = (text: string) => {
    printed += text
  }
  const environment = { SAMPLE: 'told' }
  const job = fileJob({ name: 'sample.test.mjs', path, environment, ...(withinMs && { withinMs }) })
  const [result] = await runJobs([job], 2, write)
  const { passed, failed, skipped, failures } = result!
  return { passed, failed, skipped, failures, printed }
}

test('tests are counted, and those that failed are named with the reason', async () => {
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

test('what a test left open does not keep its file from ending', async () => {
  const source = `import { spawn } from 'node:child_process'
    test('untidy', () => {
      setInterval(() => {}, 1000)
      spawn('sleep', ['5'], { stdio: 'inherit' })
    })`
  const { printed: _, ...counts } = await outcome(source)
  assert.deepEqual(counts, { passed: 1, failed: 0, skipped: 0, failures: [] })
})

test('a file that hangs, breaks off or has no tests has failed', async () => {
  const hanging = await outcome(`test('waits', () => new Promise(() => setInterval(() => {}, 1000)))`, 500)
  assert.equal(hanging.failed, 1)
  assert.match(hanging.printed, /It hangs: [\s\S]*"timer"/)
  assert.match(hanging.failures[0]!.name, /^ended with SIGKILL after \d+ ms$/)
  assert.match((await outcome(`process.exit(3)`)).failures[0]!.name, /^ended with 3/)
  assert.equal((await outcome('')).failed, 1)
})
