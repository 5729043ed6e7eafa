/** docs/promises.md quotes what README and docs/security.md promise, and names tests and breaks that exist. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { breaks } from './breaks.ts'
import {
  type NamedTest,
  plainText,
  readPromises,
  readText,
  sectionOf,
  statementsOf,
  titlesIn,
} from './page.ts'

const rows = readPromises()
const pages = ['README.md', 'docs/security.md']
/** Sections of security that promise something. The others list tests, or say how to report. */
const promising = [
  'Who may do what',
  'What each isolation protects from',
  'What teams on one machine are promised',
  'GPUs',
  'What a container can still learn of the machine',
  'What root inside can do to its own agent',
  "What root's capabilities reach under gVisor",
  'What teams can learn of each other',
  'What is kept secret, and how',
]
const keyOf = ({ file, title }: NamedTest) => `${file}: ${title}`

test('each quoted sentence stands in README or security', () => {
  const text = pages.map((page) => plainText(readText(page))).join('\n')
  assert.ok(rows.length > 80, `only ${rows.length} rows were read`)
  assert.deepEqual(
    rows.filter(({ promise }) => !text.includes(promise)).map(({ promise }) => promise),
    [],
  )
})

test('each row names a test that its file has', () => {
  const missing = rows.filter(({ tests }) => tests.length === 0).map(({ promise }) => promise)
  const wrong = rows.flatMap(({ tests }) =>
    tests.filter(({ file, title }) => !titlesIn(readText(file)).includes(title)).map(keyOf),
  )
  assert.deepEqual([...missing, ...wrong], [])
})

test('each sentence of README and security is quoted', () => {
  const section = readText('docs/promises.md').split('\n## Sentences that promise nothing\n')[1]!
  const others = [...section.matchAll(/^- “(.*)”$/gm)].map(([, sentence]) => plainText(sentence!))
  const quoted = [...rows.map(({ promise }) => promise), ...others]
  const statements = [
    ...statementsOf(sectionOf('README.md', 'What we promise')),
    ...promising.flatMap((heading) => statementsOf(sectionOf('docs/security.md', heading))),
  ]
  assert.ok(statements.length > 80, `only ${statements.length} sentences were read`)
  assert.deepEqual(
    statements.filter((one) => !quoted.some((quote) => one.includes(quote) || quote.includes(one))),
    [],
  )
  const text = pages.map((page) => plainText(readText(page))).join('\n')
  assert.deepEqual(
    others.filter((sentence) => !text.includes(sentence)),
    [],
  )
})

test('each row with a date has a break for each of its tests, and each break has a row', () => {
  const broken = new Set(breaks.map(keyOf))
  const dated = rows.filter(({ seen }) => seen !== undefined).flatMap(({ tests }) => tests.map(keyOf))
  assert.deepEqual(
    dated.filter((name) => !broken.has(name)),
    [],
  )
  const named = new Set(rows.flatMap(({ tests }) => tests.map(keyOf)))
  assert.deepEqual(
    [...broken].filter((name) => !named.has(name)),
    [],
  )
})

test('each break still fits the sources', () => {
  assert.equal(new Set(breaks.map(({ name }) => name)).size, breaks.length)
  const unfit = breaks.flatMap(({ name, edits }) =>
    edits
      .filter(({ file, from }) => readText(file).split(from).length !== 2)
      .map(({ file }) => `${name}: ${file} does not contain once what it replaces`),
  )
  assert.deepEqual(unfit, [])
})

test('sentences, cells and titles are read as they are written', () => {
  const section = `A [link](x.md) is **read**. It is\nplain: Here.\n\n| a | b |\n|---|---|\n| first | second |\n`
  assert.deepEqual(statementsOf(section), ['A link is read.', 'It is plain:', 'Here.', 'first | second'])
  const source = `it('one', () => {})\ntest("it's two", () => {})\nfor (const x of y) it(\n  \`three \${x}\`, run)`
  assert.deepEqual(titlesIn(source), ['one', "it's two", 'three …'])
  const page = '| promise | test | seen |\n|---|---|---|\n| “A.” | `a.ts`: “one” | not yet |\n'
  assert.deepEqual(readPromises(page), [
    { promise: 'A.', tests: [{ file: 'a.ts', title: 'one' }], seen: undefined },
  ])
})
