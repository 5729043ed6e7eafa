/** What the pages say about the tree is true, and their sentences are short enough to be read once. */
import assert from 'node:assert/strict'
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, it } from 'node:test'

const root = resolve(import.meta.dirname, '..')
const maxWords = 40
const read = (page: string) => readFileSync(join(root, page), 'utf8')
const foldersIn = (folder: string) =>
  readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort()

/** Sentences of prose: without tables, pictures of letters, commands and quotes of programs. */
function sentencesOf(page: string): string[] {
  const prose = page
    .replace(/^```.*?^```$/gms, '\n')
    .replace(/^\s*(?:\||#|<).*$/gm, '\n')
    .replace(/\[([^\]]+)\]\([^)]+\)/g, '$1')
    .replace(/`[^`]*`/g, 'code')
    .replace(/“[^”]*”|"[^"]*"/g, 'quote')
  const paragraphs = prose.split(/\n\s*\n|\n(?=\s*(?:-|\d+\.) )/)
  return paragraphs.flatMap((one) => one.replace(/\s+/g, ' ').split(/(?<=[.:;!?]\)?(?:\*\*)?) /))
}

const isTooLong = (sentence: string) => sentence.trim().split(' ').length > maxWords

/** The names in the first column of the table under a heading. */
function firstColumn(page: string, heading: string): string[] {
  const [, section] = read(page).split(`\n## ${heading}\n`)
  assert.ok(section, `${page} has no heading '${heading}'`)
  const rows = section.split('\n## ')[0]!.matchAll(/^\| (`[^|]+`) \|/gm)
  return [...rows].flatMap(([, cell]) => [...cell!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!))
}

describe('a page', () => {
  const pages = globSync(['*.md', 'docs/*.md', 'docs/decisions/*.md'], { cwd: root })

  it('has no sentence of more than forty words', () => {
    assert.ok(pages.length > 100)
    const long = pages.flatMap((page) =>
      sentencesOf(read(page))
        .filter(isTooLong)
        .map((sentence) => `${page}: ${sentence}`),
    )
    assert.deepEqual(long, [])
  })

  it('is read by sentences: tables, code and quotes do not count', () => {
    const page = `# A title\n\nOne is here. Two \`a b c\` follows: "x y".\n\n- three\n- four (five.) six\n\n| a | b |\n\n\`\`\`sh\nrun it\n\`\`\`\n`
    const read = sentencesOf(page).map((one) => one.trim())
    assert.deepEqual(read.filter(Boolean), [
      'One is here.',
      'Two code follows:',
      'quote.',
      '- three',
      '- four (five.)',
      'six',
    ])
    assert.ok(isTooLong('word '.repeat(maxWords + 1)))
    assert.ok(!isTooLong('word '.repeat(maxWords)))
  })
})

describe('ARCHITECTURE.md', () => {
  it('lists each folder of src once, and no other', () => {
    const [table] = read('ARCHITECTURE.md').split('\nImports point one way')
    const listed = [...table!.matchAll(/^\| `src\/([\w-]+)\/` \|/gm)].map(([, name]) => name!)
    assert.deepEqual(listed.sort(), foldersIn('src'))
  })

  it('lists each folder of src/app once, and no other', () => {
    const listed = firstColumn('ARCHITECTURE.md', 'The floors of app').map((name) => name.replace('/', ''))
    assert.deepEqual(listed.sort(), foldersIn('src/app'))
  })

  it('names each folder of src/core and of src/core/sandbox on its floor', () => {
    const [, section] = read('ARCHITECTURE.md').split('\n## The floors of core\n')
    const words = new Set(section!.split('\n## ')[0]!.match(/[a-z][a-z-]+/g))
    const missing = [...foldersIn('src/core'), ...foldersIn('src/core/sandbox')]
    assert.deepEqual(
      missing.filter((name) => !words.has(name)),
      [],
    )
  })

  it('lists each folder of the drivers, and no other', () => {
    const listed = firstColumn('ARCHITECTURE.md', 'What a sandbox is made of (src/drivers)')
    const folders = ['oci', 'host'].flatMap((one) => [
      ...(one === 'oci' ? ['oci/'] : []),
      ...foldersIn(`src/drivers/${one}`).map((name) => `${one}/${name}/`),
    ])
    // The tests of real sandboxes are named below the table.
    const expected = folders.filter((name) => name !== 'oci/suite/')
    assert.deepEqual(listed.sort(), expected.sort())
  })
})

describe('the change of a field in CONTRIBUTING.md', () => {
  const [, section] = read('CONTRIBUTING.md').split('\n## One change from start to proof')
  const table = section!.split('\n## ')[0]!

  it('touches as many files as it says, and all of them are there', () => {
    const [steps] = table.split('\nProve it')
    const files = [...steps!.matchAll(/^\|[^|]*\|([^|]*)\|/gm)].flatMap(([, cell]) =>
      [...cell!.matchAll(/`([\w./…-]+\.ts)`/g)].map(([, name]) => name!),
    )
    assert.equal(new Set(files).size, Number(/touches (\d+) files/.exec(table)?.[1]))
    const missing = files.filter((name) => !name.includes('NNNN') && !existsSync(join(root, name)))
    assert.deepEqual(missing, [])
  })
})
