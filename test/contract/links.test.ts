/** Every page that another page, a comment or a message sends its reader to is there. */
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { test } from 'node:test'

const repoFolder = resolve(import.meta.dirname, '../..')

test('links between pages lead to files that exist', () => {
  const pages = globSync(['*.md', 'docs/**/*.md'], { cwd: repoFolder })
  const dead = pages.flatMap((page) => {
    const text = readFileSync(join(repoFolder, page), 'utf8')
    const targets = [...text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)].map(([, target]) => target!)
    return targets
      .filter((target) => !/^[a-z]+:/.test(target))
      .filter((target) => !existsSync(join(repoFolder, dirname(page), target)))
      .map((target) => `${page}: ${target}`)
  })
  assert.ok(pages.length > 20)
  assert.deepEqual(dead, [])
})

test('files of the project that pages name exist', () => {
  const pages = globSync(['*.md', 'docs/**/*.md'], { cwd: repoFolder })
  const named = pages.flatMap((page) => {
    const text = readFileSync(join(repoFolder, page), 'utf8')
    const paths = [...text.matchAll(/`((?:src|test|bin|charts|proto)\/[\w./*-]*[\w/*])`/g)].map(
      ([, path]) => path!,
    )
    return paths.map((path) => ({ page, path }))
  })
  const dead = named.filter(({ path }) => globSync(path, { cwd: repoFolder }).length === 0)
  assert.ok(named.length > 50)
  assert.deepEqual(
    dead.map(({ page, path }) => `${page}: ${path}`),
    [],
  )
})

test('pages that code names exist', () => {
  const sources = globSync(['src/**/*.ts', 'test/**/*.ts', 'bin/*'], { cwd: repoFolder })
  const dead = sources.flatMap((source) => {
    const named = [...readFileSync(join(repoFolder, source), 'utf8').matchAll(/\bdocs\/[\w./-]+\.md\b/g)]
    return named.filter(([page]) => !existsSync(join(repoFolder, page))).map(([page]) => `${source}: ${page}`)
  })
  assert.ok(sources.length > 100)
  assert.deepEqual(dead, [])
})
