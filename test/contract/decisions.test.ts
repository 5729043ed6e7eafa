/** The index of docs/decisions lists every page once, by its title, and each page says its status in the same form. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, it } from 'node:test'

const folder = resolve(import.meta.dirname, '../../docs/decisions')
const read = (name: string) => readFileSync(join(folder, name), 'utf8')
const pages = readdirSync(folder).filter((name) => /^\d{4}-.+\.md$/.test(name))
const index = read('README.md')
const date = String.raw`\d{4}-\d\d-\d\d`
const status = new RegExp(
  `^Status: (accepted, ${date}|(withdrawn|replaced by \\[[^\\]]+\\]\\(\\d{4}-[^)]+\\)), ${date}; accepted, ${date})\\.$`,
)

describe('a decision', () => {
  it('begins with a title without its number, and with its status and date', () => {
    const wrong = pages.filter((name) => {
      const [title, empty, second] = read(name).split('\n')
      return !/^# [^\d\s]/.test(title!) || empty !== '' || !status.test(second!)
    })
    assert.deepEqual(wrong, [])
  })

  it('stands in the index once, with its title, under one of the topics', () => {
    const topics = index.slice(index.indexOf('\n## '))
    const listed = [...topics.matchAll(/^- \[(.+)\]\((\d{4}-[^)]+)\)/gm)].map(([, title, name]) => ({
      title,
      name,
    }))
    const actual = pages.map((name) => ({ title: read(name).split('\n')[0]!.slice(2), name }))
    const byName = (a: { name?: string | undefined }, b: { name?: string | undefined }) =>
      a.name! < b.name! ? -1 : 1
    assert.deepEqual(listed.sort(byName), actual.sort(byName))
  })

  it('that is withdrawn or replaced is marked as such in the index', () => {
    const wrong = pages.filter((name) => {
      const isOver = !read(name).split('\n')[2]!.startsWith('Status: accepted')
      return (
        isOver !==
        new RegExp(`\\(${name.replaceAll('.', '\\.')}\\) \\((withdrawn|replaced)\\)$`, 'm').test(index)
      )
    })
    assert.deepEqual(wrong, [])
  })
})

describe('a number without a decision', () => {
  it('is explained by the index', () => {
    const explained = index
      .slice(index.indexOf('## Missing numbers'), index.indexOf('From number'))
      .replace(/(\d+) to (\d+)/g, (_, from: string, to: string) =>
        Array.from({ length: Number(to) - Number(from) + 1 }, (_, at) => Number(from) + at).join(', '),
      )
    const named = [...explained.matchAll(/\b\d+\b/g)].map(([number]) => Number(number))
    const used = pages.map((name) => Number(name.slice(0, 4)))
    const all = Array.from({ length: 132 }, (_, at) => at + 1)
    assert.deepEqual(
      named.sort((a, b) => a - b),
      all.filter((number) => !used.includes(number)),
    )
  })
})
