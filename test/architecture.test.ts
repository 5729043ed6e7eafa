// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the samples are source text
/** Reads every file of src/ and bin/ and holds it against the house rules. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { suite, test } from 'node:test'
import {
  errorTableViolations,
  importCircles,
  longestFile,
  mayImport,
  sharedTypeNames,
  violationsOf,
} from './support/architecture.ts'
import { unusedExports } from './support/exports.ts'
import { floorsOf } from './support/floors.ts'
import { maskTexts } from './support/source-text.ts'
import { replacedNames } from './support/words.ts'

const root = join(import.meta.dirname, '..')

function readSources(folders: readonly string[]): Map<string, string> {
  const sources = new Map<string, string>()
  for (const folder of folders) {
    for (const entry of readdirSync(join(root, folder), { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue
      const file = join(entry.parentPath, entry.name)
      const source = readFileSync(file, 'utf8')
      const isProgram = /\.(?:[cm]?[jt]s|tsx)$/.test(entry.name) || /^#!.*\bnode\b/.test(source)
      if (isProgram) sources.set(relative(root, file), source)
    }
  }
  return sources
}

const sources = readSources(['src', 'bin'])

test('every file of src and bin keeps the house rules', () => {
  for (const known of ['src/core/sandbox/service.ts', 'src/lib/clock.ts', 'src/store/open-stores.ts']) {
    assert.ok(sources.has(known), `${known} was not read`)
  }
  assert.deepEqual(
    [...sources].flatMap(([path, source]) => violationsOf(path, source)),
    [],
  )
})

test('a type has a name of its own', () => {
  assert.deepEqual(sharedTypeNames(sources), [])
  const twice = new Map([
    ['src/edge/a.ts', 'export type Route = string'],
    ['src/egress/b.ts', 'export interface Route {}'],
  ])
  assert.deepEqual(sharedTypeNames(twice), ['Route: src/edge/a.ts, src/egress/b.ts'])
})

test('what no other file imports is not exported', () => {
  assert.deepEqual(unusedExports(new Map([...sources, ...readSources(['test'])])), [])
  const few = new Map([
    ['src/edge/a.ts', 'export type A = string\nexport const b = 1\nexport async function c() {}'],
    ['src/edge/b.ts', "import { type A,\n  c as d } from './a.ts'"],
    ['src/edge/c.ts', 'export type E = 1'],
    ['test/e2e/c.test.ts', "await import('../../src/edge/c.ts')"],
  ])
  assert.deepEqual(unusedExports(few), ['src/edge/a.ts exports b, which no other file imports'])
})

test('one thing has one word, that of the glossary', () => {
  assert.deepEqual(replacedNames(new Map([...sources, ...readSources(['test'])])), [])
  const old = new Map([
    ['src/app/a.ts', "const mostBytes = 1\nconst almost = 'most'\nconst { mostPerSandbox } = gpus"],
    ['src/volumes/b.ts', 'class StoredVolumes {\n  #held = storedAt\n}'],
    ['src/core/team/c.ts', "remove(row.move_id)\n// to move\nmayMove('move')"],
    ['src/core/team/c.test.ts', 'const held = gate()\nconst upheld = gate()'],
    ['src/core/cluster/d.ts', 'const isAway = false'],
    ['src/agent/e.ts', 'files.move()\nlimits.keepTheme(unkept)'],
    ['src/dashboard/views/f.tsx', 'const kept = <p>This is held and told.</p>'],
    ['src/cli/told-ends.ts', 'run(flags.keep, takeSnapshot, keepAlive)'],
    ['src/cli/run.ts', 'run(flags.keep)'],
    ['test/support/g.ts', 'const place: Place = taken.roomOf(standsStill)\ntakePaused(stillThere)'],
  ])
  assert.deepEqual(
    replacedNames(old).map((one) => one.replace(/: say .*/, '')),
    [
      'src/app/a.ts has mostBytes',
      'src/volumes/b.ts has StoredVolumes',
      'src/volumes/b.ts has #held',
      'src/core/team/c.ts has mayMove',
      'src/core/team/c.test.ts has held',
      'src/core/cluster/d.ts has isAway',
      'src/dashboard/views/f.tsx has kept',
      'src/cli/told-ends.ts has toldEnds',
      'src/cli/told-ends.ts has keep',
      'test/support/g.ts has place',
      'test/support/g.ts has Place',
      'test/support/g.ts has taken',
      'test/support/g.ts has takePaused',
      'test/support/g.ts has roomOf',
      'test/support/g.ts has standsStill',
    ],
  )
})

test('a group of tests names its subject, of which each title then says what it does', () => {
  const groupsOf = (texts: ReadonlyMap<string, string>) =>
    [...texts].flatMap(([path, source]) =>
      [...source.matchAll(/^\s*(?:describe|suite)\((['"`])(.*?)\1/gm)].map(([, , title]) => ({
        path,
        title: title!,
      })),
    )
  const hasNone = ({ title }: { title: string }) =>
    /^(?:when|if|it|that|is|are|can|may|has|does|works)\b/.test(title)
  const groups = groupsOf(new Map([...sources, ...readSources(['test'])]))
  assert.ok(groups.length > 300)
  assert.deepEqual(groups.filter(hasNone), [])
  const few = new Map([['src/a.test.ts', "describe('when it ends', () => {})\n  suite(`a kill`, () => {})"]])
  assert.deepEqual(groupsOf(few).filter(hasNone), [{ path: 'src/a.test.ts', title: 'when it ends' }])
})

test('no files import each other in a circle', () => {
  assert.deepEqual(importCircles(sources), [])
  const circle = new Map([
    ['src/edge/a.ts', "import { b } from './b.ts'"],
    ['src/edge/b.ts', "import type { C } from '../lib/c.ts'"],
    ['src/lib/c.ts', "import type { A } from '../edge/a.ts'"],
    ['src/lib/d.ts', "import { c } from './c.ts'"],
  ])
  assert.deepEqual(importCircles(circle), ['src/edge/a.ts -> src/edge/b.ts -> src/lib/c.ts -> src/edge/a.ts'])
})

test('error codes are mapped in one table of the api and one of the agent', () => {
  assert.deepEqual(errorTableViolations(sources), [])
})

suite('each house rule can be broken', () => {
  const broken: [rule: string, path: string, source: string, words: RegExp][] = [
    [
      'a sibling',
      'src/api/x.ts',
      "import { a } from '../store/teams.ts'",
      /api may import core, contract, lib/,
    ],
    ['a sibling by its type', 'src/edge/x.ts', "import type { A } from '../api/a.ts'", /edge may import/],
    ['a sibling re-exported', 'src/store/x.ts', "export { a } from '../drivers/a.ts'", /store may import/],
    ['a sibling while running', 'src/store/x.ts', "await import('../images/a.ts')", /store may import/],
    ['a sibling in a type', 'src/store/x.ts', "type A = import('../images/a.ts').A", /store may import/],
    [
      'a sibling for its effects',
      'src/agent/x.ts',
      "import '../core/ports/driver.ts'",
      /agent may import contract, lib/,
    ],
    [
      'a sibling over several lines',
      'src/core/team/x.ts',
      "import {\n  a,\n} from '../../contract/a.ts'",
      /core may import lib/,
    ],
    ['app', 'src/cli/x.ts', "import { a } from '../app/config.ts'", /cli may import/],
    ['anything from lib', 'src/lib/x.ts', "import { a } from '../core/a.ts'", /no other room/],
    ['a room from bin', 'bin/warren.ts', "import { a } from '../src/core/a.ts'", /bin may import app, cli/],
    ['a computed name', 'src/app/x.ts', 'await import(name)', /computed/],
    ['a computed text', 'src/app/x.ts', 'await import(`./${name}.ts`)', /computed/],
    ['a package in core', 'src/core/team/x.ts', "import fastify from 'fastify'", /core takes none/],
    ['a package in lib', 'src/lib/x.ts', "import type { A } from '@scope/a'", /lib takes none/],
    ['kysely outside the store', 'src/api/x.ts', "import { sql } from 'kysely'", /SQL lives in the store/],
    [
      'node:sqlite outside the store',
      'src/app/x.ts',
      "import { DatabaseSync } from 'node:sqlite'",
      /SQL lives/,
    ],
    ['a value in the dashboard', 'src/dashboard/x.ts', "import { a } from '../contract/a.ts'", /only types/],
    ['test code', 'src/store/x.ts', "import { a } from '../../test/support/a.ts'", /test code/],
    ['a suite', 'src/store/x.ts', "import { a } from './store-suite.ts'", /test code/],
    ['a file outside every room', 'src/store/x.ts', "import { a } from '../../docs/a.ts'", /in no room/],
    [
      'an arrow up inside core',
      'src/core/template/x.ts',
      "import type { Sandbox } from '../sandbox/row/sandbox.ts'",
      /lower floor/,
    ],
    [
      'an arrow up between rooms of sandboxes',
      'src/core/sandbox/row/x.ts',
      "import '../verbs/creator.ts'",
      /lower floor/,
    ],
    [
      'HTTP in core',
      'src/core/cluster/x.ts',
      "import type { IncomingMessage } from 'node:http'",
      /I\/O and HTTP/,
    ],
    [
      'the HTTP relay in core',
      'src/core/cluster/x.ts',
      "import '../../lib/http-relay/http-relay.ts'",
      /I\/O and HTTP/,
    ],
    ['files in core', 'src/core/cluster/x.ts', "import 'node:fs'", /I\/O and HTTP/],
    ['a file of core in no folder', 'src/core/x.ts', '', /on no floor of src\/core/],
    ['a new folder of core', 'src/core/misc/x.ts', '', /on no floor of src\/core/],
    [
      'a higher floor',
      'src/drivers/host/disk/x.ts',
      "import { a } from '../../oci/runtime/a.ts'",
      /disk may import host\/record, host\/process, host\/namespace/,
    ],
    [
      'a file above all floors',
      'src/drivers/oci/snapshot/x.ts',
      "import type { A } from '../oci-driver.ts'",
      /snapshot may import/,
    ],
    [
      'anything from the lowest floor',
      'src/drivers/host/record/x.ts',
      "import { a } from '../disk/a.ts'",
      /no other folder/,
    ],
    ['a new floor', 'src/drivers/oci/misc/x.ts', '', /on no floor of src\/drivers/],
    ['process.env', 'src/agent/x.ts', 'const home = process.env.HOME', /settings are read once/],
    ['Date.now', 'src/core/team/x.ts', 'const at = Date.now()', /a Clock/],
    ['new Date()', 'src/core/team/x.ts', 'const at = new Date()', /a Clock/],
    ['a timer', 'src/core/team/x.ts', 'const timer = setTimeout(() => {}, 5)', /a Clock/],
    ['a timer of a signal', 'src/core/team/x.ts', 'const signal = AbortSignal.timeout(5)', /a Clock/],
    ['a private part of Node', 'src/egress/x.ts', 'const { fd } = socket._handle', /nobody promises/],
    ['a flag of V8', 'src/app/x.ts', "setFlagsFromString('--x')", /nobody promises/],
    ['Math.random', 'src/core/team/x.ts', 'const n = Math.random()', /ids and secrets/],
    ['randomUUID', 'src/api/x.ts', "import { randomUUID } from 'node:crypto'", /ids and secrets/],
    ['randomness inside a text', 'src/api/x.ts', 'const id = `x-${crypto.randomUUID()}`', /ids and secrets/],
    ['paired constants', 'src/core/team/x.ts', 'const [tries, pauseMs] = [3, 1000]', /line of its own/],
    ['stacked comments', 'src/core/team/x.ts', '/** One. */\n/** Two. */\nconst a = 1', /on top of another/],
    ['packed lines', 'src/core/team/x.ts', 'const a = { ...{ b, c } }', /packs lines/],
    [
      'a state changed elsewhere',
      'src/core/sandbox/expiry.ts',
      "await store.transition(at, 'killing')",
      /files of its verbs/,
    ],
    ['a file too long', 'src/core/team/x.ts', 'x\n'.repeat(longestFile + 1), /401 lines/],
    ['a test too long', 'src/core/team/x.test.ts', 'x\n'.repeat(longestFile + 1), /401 lines/],
    ['a new room', 'src/misc/x.ts', '', /no room/],
    ['a file in no room', 'src/x.ts', '', /no room/],
  ]
  for (const [rule, path, source, words] of broken) {
    test(`${rule} is caught`, () => {
      const violations = violationsOf(path, source)
      assert.equal(violations.length, 1, violations.join('\n'))
      assert.match(violations[0]!, words)
    })
  }

  test('a second table of error codes is caught, and one in a room without a protocol', () => {
    const table = 'const statusOf: Record<ErrorCode, number> = {}'
    const violations = errorTableViolations(
      new Map([
        ['src/api/a.ts', table],
        ['src/api/b.ts', table],
        ['src/agent/a.ts', table],
        ['src/core/a.ts', table],
      ]),
    )
    assert.equal(violations.length, 2)
    assert.match(
      violations.join('\n'),
      /src\/core\/a\.ts maps[\s\S]*src\/api\/a\.ts and src\/api\/b\.ts both/,
    )
  })
})

suite('allowed code passes', () => {
  const fine: [what: string, path: string, source: string][] = [
    [
      'the room itself, lib and node:',
      'src/store/x.ts',
      "import './y.ts'\nimport '../lib/a.ts'\nimport 'node:fs'",
    ],
    [
      'an arrow down inside core',
      'src/core/sandbox/verbs/x.ts',
      "import './y.ts'\nimport '../row/sandbox.ts'\nimport '../../template/template.ts'",
    ],
    [
      'a lower floor, and the own one',
      'src/drivers/host/disk/x.ts',
      "import './a.ts'\nimport '../record/a.ts'",
    ],
    ['SQL in the store', 'src/store/x.ts', "import { sql } from 'kysely'\nimport { Pool } from 'pg'"],
    [
      'types of the contract in the dashboard',
      'src/dashboard/x.ts',
      "import type { A } from '../contract/a.ts'",
    ],
    [
      'bans named in texts and comments',
      'src/core/team/x.ts',
      "// process.env\n/* Date.now() */ log('Math.random()')",
    ],
    [
      'a head of a file, and a comment over several lines',
      'src/core/team/x.ts',
      '/** Head. */\n\n/**\n * More.\n */\nconst a = 1',
    ],
    ['imports shown in texts', 'src/core/team/x.ts', "print(`\n  import { Sandbox } from 'e2b'\n`)"],
    ['a date made from a number', 'src/core/team/x.ts', 'new Date(row.createdAt).toISOString()'],
    ['the homes themselves', 'src/lib/clock.ts', 'Date.now()'],
    ['a private part of Node in its folder', 'src/lib/node-internals/x.ts', 'socket._handle'],
    ['a verb that changes states', 'src/core/sandbox/verbs/ender.ts', "store.transition(at, 'killing')"],
    [
      'tests that join rooms',
      'src/core/team/x.test.ts',
      "import '../../store/a.ts'\nprocess.env.HOME; Date.now()",
    ],
    ['exactly as long as allowed', 'src/core/team/x.ts', 'x\n'.repeat(longestFile)],
    ['generated code of any length', 'src/contract/rpc/process_pb.ts', 'x\n'.repeat(longestFile + 1)],
  ]
  for (const [what, path, source] of fine) {
    test(what, () => assert.deepEqual(violationsOf(path, source), []))
  }

  test('only app may import app, and the table lists no folder under itself', () => {
    const importers = Object.entries(mayImport).filter(([, folders]) => folders.includes('app'))
    assert.deepEqual(
      importers.map(([topFolder]) => topFolder),
      ['bin'],
    )
    for (const [topFolder, folders] of Object.entries(mayImport))
      assert.ok(!folders.includes(topFolder), topFolder)
  })
})

test('every floor is a folder with files, and imports only floors below it', () => {
  const folders = new Set([...sources.keys()].map((path) => dirname(path)))
  for (const [topFolder, floors] of Object.entries(floorsOf)) {
    const lower = new Set<string>()
    for (const [folder, below] of Object.entries(floors)) {
      assert.ok(folders.has(join(topFolder, folder)), `${topFolder} has no folder ${folder}`)
      for (const one of below) assert.ok(lower.has(one), `${folder} of ${topFolder} is not above ${one}`)
      lower.add(folder)
    }
  }
})

suite('code is distinguished from texts', () => {
  const masked: [what: string, source: string, code: string][] = [
    ['quotes', `a('x', "y's")`, `a(' ', "   ")`],
    ['escapes', String.raw`a('it\'s', b)`, `a('     ', b)`],
    ['line comments', 'a // b\nc', 'a     \nc'],
    ['block comments', 'a /* b */ c', 'a         c'],
    ['templates with code', '`x${a + `y${b}`}z` + c', '` ${a + ` ${b}`} ` + c'],
    ['templates with braces in the code', '`x${f({ a: {} })}y`', '` ${f({ a: {} })} `'],
    ['regexes with quotes', `/['"/]/.test(a) && 'b'`, `/     /.test(a) && ' '`],
    ['division', `a / b / c + 'd'`, `a / b / c + ' '`],
    ['a slash after a call', `f(a) / 2 + '/'`, `f(a) / 2 + ' '`],
    ['the first line of a script', '#!/usr/bin/env node\na', '                   \na'],
  ]
  for (const [what, source, code] of masked) {
    test(what, () => assert.equal(maskTexts(source), code))
  }
})
