/** Reads docs/promises.md and the pages whose sentences it quotes. */
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

export const repoFolder = resolve(import.meta.dirname, '../..')

export type NamedTest = { file: string; title: string }
/** `seen` is the day on which the test last failed because the promise was made false on purpose. */
export type PromiseRow = { promise: string; tests: NamedTest[]; seen: string | undefined }

export const readText = (path: string): string => readFileSync(join(repoFolder, path), 'utf8')

/** A quote has neither the links nor the stress of the page that it comes from, and other line breaks. */
export const plainText = (markdown: string): string =>
  markdown
    .replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1')
    .replaceAll('**', '')
    .replaceAll(/\s+/g, ' ')
    .trim()

/** Lines of tables without their heads; a cell may contain `\|`. */
function rowsOf(markdown: string): string[][] {
  const lines = markdown.split('\n')
  const isRule = (line: string | undefined) => /^\|(-+\|)+$/.test(line ?? '')
  return lines
    .filter((line, at) => line.startsWith('|') && !isRule(line) && !isRule(lines[at + 1]))
    .map((line) =>
      line
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim()),
    )
}

export function readPromises(markdown = readText('docs/promises.md')): PromiseRow[] {
  const [promised] = markdown.split('\n## Not promised yet\n')
  return rowsOf(promised!).map(([promise, tests, seen]) => ({
    promise: plainText(promise!).replace(/^“(.*)”$/, '$1'),
    tests: [...tests!.matchAll(/`([^`]+)`: “([^”]+)”/g)].map(([, file, title]) => ({
      file: file!,
      title: title!,
    })),
    seen: /^\d{4}-\d{2}-\d{2}$/.test(seen!) ? seen : undefined,
  }))
}

/** The part of a page under a heading, up to the next one. */
export function sectionOf(page: string, heading: string): string {
  const [, rest] = readText(page).split(`\n## ${heading}\n`)
  if (rest === undefined) throw new Error(`${page} has no heading '${heading}'.`)
  return rest.split('\n## ')[0]!
}

/** Its sentences outside of tables, and the rows of its tables. What stands before a list in bold is a title of it. */
export function statementsOf(section: string): string[] {
  const prose = section.split('\n').filter((line) => !line.startsWith('|'))
  const paragraphs = prose.join('\n').split(/\n\s*\n|\n(?=- )/)
  const sentences = paragraphs.flatMap((paragraph) =>
    plainText(paragraph.replace(/^\s*- (\*\*[^*]+\*\*)?/, '')).split(/(?<=[.:])(?= [A-Z`])/),
  )
  const rows = rowsOf(section).map((cells) => plainText(cells.join(' | ')))
  return [...sentences, ...rows].map((one) => one.trim()).filter((one) => one !== '')
}

/** Titles of tests in a file, with `…` where one is composed of values. */
export function titlesIn(source: string): string[] {
  const texts = source.matchAll(
    /\b(?:test|it|check)\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`([^`]*)`)/g,
  )
  return [...texts].map(([, single, double, template]) =>
    (single ?? double ?? template!).replaceAll(/\$\{[^}]*\}/g, '…').replaceAll("\\'", "'"),
  )
}
