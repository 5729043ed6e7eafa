/** The page for when something fails names every failure that there is. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { allChecks } from '../../src/app/doctor/doctor.ts'

const repoFolder = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(repoFolder, path), 'utf8')
const page = read('docs/troubleshooting.md')

test('every code of a failure has its status and its remedy', () => {
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
