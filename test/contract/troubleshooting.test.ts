/** The page for when something fails names every failure that there is. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { allChecks } from '../../src/app/doctor/doctor.ts'
import { errorTexts, remedies, textsOf } from '../../src/docs-site/error-texts.ts'

const repoFolder = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(repoFolder, path), 'utf8')
const page = read('docs/troubleshooting.md')

test('every error code has its status and its remedy', () => {
  const table = /const statusOf: Record<ErrorCode, number> = \{([^}]+)\}/.exec(
    read('src/api/error-handler.ts'),
  )![1]!
  const codes = [...table.matchAll(/(\w+): (\d+)/g)]
  assert.ok(codes.length > 10)
  for (const [, code, status] of codes) {
    const row = page.split('\n').find((line) => line.includes(`\`${code}\``))
    assert.ok(row?.startsWith(`| ${status} |`), `${code} (${status}) is not on the page`)
    assert.equal(row!.split('|').length, 6, `${code} has no remedy`)
  }
})

test('every answer of the edge is explained', () => {
  const titles = [...read('src/edge/answers.ts').matchAll(/title: [`']([^`'$]+)/g)].map(([, title]) =>
    title!.trim(),
  )
  assert.ok(titles.length > 8)
  for (const title of titles) assert.ok(page.includes(`| ${title} |`), title)
})

test('every check of the doctor is explained', () => {
  for (const { name } of allChecks) assert.ok(page.includes(`\`${name}\``), name)
})

test('every message in the sources is listed, with the remedy for its code', () => {
  const texts = errorTexts(repoFolder)
  const known = remedies(repoFolder)
  assert.deepEqual(
    [...texts.keys()].filter((code) => !known.has(code)),
    [],
  )
  const all = [...texts.values()].flat()
  assert.ok(all.length > 400, `only ${all.length} were found`)
  assert.ok(all.includes("Sandbox '…' is paused and cannot be forked; resume it first"))
})

test('messages are found however the source composes them', () => {
  const source = `
    const closed: string = 'It is closed.'
    const gone = (what: string) => new AppError('not_found', what)
    function late(code: ErrorCode) { return new AppError(code, \`\${name} is late; \` + 'wait.') }
    const first = () => isOpen ? gone('It is gone.') : gone(\`\${id} is gone.\`)
    const second = () => late('unavailable')
    const third = new AppError(isFull ? 'no_space' : 'internal', isFull ? 'It is full.' : closed)
    const fourth = new AppError('conflict', error.message || 'It failed.')`
  assert.deepEqual(textsOf(source).sort(), [
    ['conflict', 'It failed.'],
    ['internal', 'It is closed.'],
    ['internal', 'It is full.'],
    ['no_space', 'It is closed.'],
    ['no_space', 'It is full.'],
    ['not_found', 'It is gone.'],
    ['not_found', '… is gone.'],
    ['unavailable', '… is late; wait.'],
  ])
})
