import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { after, describe, it } from 'node:test'
import { BuildContext } from './context.ts'
import { ignoreOf, patternOf } from './patterns.ts'

const root = mkdtempSync(join(tmpdir(), 'warren-copy-test-'))
after(() => rmSync(root, { recursive: true, force: true }))
let made = 0

/** A value that begins with `->` is a link. */
function folderOf(files: Record<string, string>): string {
  made += 1
  const folder = join(root, String(made))
  mkdirSync(folder)
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    if (text.startsWith('->')) symlinkSync(text.slice(2), join(folder, name))
    else writeFileSync(join(folder, name), text)
  }
  return folder
}

const selected = async (folder: string, source: string) =>
  (await (await BuildContext.open(folder)).select(source)).map(({ path }) => path)

const files = {
  'a.txt': 'a',
  '.hidden': 'h',
  'b.md': 'b',
  'src/main.ts': 'm',
  'src/.env': 'e',
  'src/deep/er.ts': 'd',
  'src/link': '->../a.txt',
  'out/to': '->/etc',
  '[id].ts': 'i',
  '-rf': 'r',
}

describe('the source of a COPY', () => {
  it('is a file, a folder with its contents, or all matches of a pattern', async () => {
    const folder = folderOf(files)
    assert.deepEqual(await selected(folder, 'a.txt'), ['a.txt'])
    assert.deepEqual(await selected(folder, 'src'), [
      'src',
      'src/.env',
      'src/deep',
      'src/deep/er.ts',
      'src/link',
      'src/main.ts',
    ])
    assert.deepEqual(await selected(folder, 'src/*.ts'), ['src/main.ts'])
    assert.deepEqual(await selected(folder, 'src/d*'), ['src/deep', 'src/deep/er.ts'])
    assert.deepEqual(await selected(folder, '**/*.ts'), ['[id].ts', 'src/deep/er.ts', 'src/main.ts'])
    assert.deepEqual(await selected(folder, '?.[mt]*'), ['a.txt', 'b.md'])
    assert.deepEqual(await selected(folder, '[id].ts'), ['[id].ts'])
    assert.equal((await selected(folder, '.')).length, 13)
    assert.ok((await selected(folder, '*')).includes('.hidden'))
  })

  it('never leaves the folder through a link', async () => {
    const folder = folderOf(files)
    assert.deepEqual(await selected(folder, 'out'), ['out', 'out/to'])
    assert.deepEqual(await selected(folder, 'out/to'), ['out/to'])
    await assert.rejects(selected(folder, 'out/to/passwd'), /'out\/to' is a link/)
    await assert.rejects(selected(folder, 'out/to/*'), /'out\/to' is a link/)
  })

  it('must exist, and must be of a kind that can be copied', async () => {
    const folder = folderOf({ ...files, '.dockerignore': 'b.md' })
    await assert.rejects(selected(folder, 'none'), /there is no 'none' in/)
    await assert.rejects(selected(folder, 'a.txt/none'), /there is no/)
    await assert.rejects(selected(folder, '*.none'), /there is no/)
    await assert.rejects(selected(folder, 'b.md'), /exists, but \.dockerignore excludes it/)
    execFileSync('mkfifo', [join(folder, 'pipe')])
    await assert.rejects(selected(folder, '.'), /'pipe' is not a file, folder or link/)
  })

  it('excludes the files that .dockerignore names, except for its exceptions', async () => {
    const rules = '# comment\n\n/src\n!src/deep\n**/*.md\r\n*.txt\n!a.txt\nout/\n'
    const folder = folderOf({ ...files, 'c.txt': 'c', '.dockerignore': rules })
    assert.deepEqual(await selected(folder, '.'), [
      '-rf',
      '.dockerignore',
      '.hidden',
      '[id].ts',
      'a.txt',
      'src/deep',
      'src/deep/er.ts',
    ])
    assert.deepEqual(await selected(folder, 'src'), ['src/deep', 'src/deep/er.ts'])
  })
})

describe('patterns', () => {
  const cases: [glob: string, path: string, matches: boolean][] = [
    ['*', 'a/b', true],
    ['*.ts', 'a/b.ts', false],
    ['a/**/z', 'a/z', true],
    ['a/**/z', 'a/b/c/z', true],
    ['a/**', 'a/b', true],
    ['**/z', 'zz', false],
    ['[!a]x', 'bx', true],
    ['[!a]x', 'ax', false],
    ['[^a]x', '/x', false],
    ['[a-c]', 'b', true],
    ['a[', 'a[', true],
    ['a.b', 'axb', false],
    ['a+(b)', 'a+(b)', true],
    ['c++', 'c++/x', true],
    ['a**z', 'a/b/z', true],
    ['a**z', 'abz', false],
    ['a**', 'abz/c', true],
    ['a\\*', 'ab', false],
    ['a\\*', 'a*', true],
  ]
  for (const [glob, path, matches] of cases) {
    it(`'${glob}' ${matches ? 'matches' : 'does not match'} '${path}'`, () => {
      assert.equal(patternOf(glob).test(path), matches)
    })
  }

  it('are rejected if they are invalid', () =>
    assert.throws(() => patternOf('[z-a]'), /not a pattern of paths/))

  const ignored: [rules: string, path: string, isIgnored: boolean][] = [
    ['node_modules', 'node_modules/a', true],
    ['node_modules', 'src/node_modules', false],
    ['**/node_modules', 'src/node_modules/a', true],
    ['/src', 'src/a', true],
    ['./src//a/../b/', 'src/b/c', true],
    ['*.md\n!README.md', 'README.md', false],
    ['*.md\n!README*\nREADME-secret.md', 'README-secret.md', true],
    ['src\n!src/keep', 'src/keep/deep', false],
    ['! src', 'src', false],
    ['SRC', 'src', false],
    ['app/(group)', 'app/(group)/a', true],
    ['.', 'a', false],
    ['**', 'a/b', true],
    ['\uFEFF# comment\n #name', '#name', true],
  ]
  for (const [rules, path, isIgnored] of ignored) {
    it(`${JSON.stringify(rules)} ${isIgnored ? 'leaves out' : 'keeps'} '${path}'`, () => {
      assert.equal(ignoreOf(rules)(path), isIgnored)
    })
  }

  it('of an empty .dockerignore exclude nothing', () => assert.equal(ignoreOf('\n#x\n!\n')('a'), false))
})

describe('the hash of files', () => {
  it('changes with names, contents, modes and links, not with times', async () => {
    const folder = folderOf({ 'd/a': '1', 'd/l': '->a' })
    const hash = async () => {
      const context = await BuildContext.open(folder)
      return context.hash('d', '/x', await context.select('d'))
    }
    const seen = [await hash()]
    utimesSync(join(folder, 'd/a'), 1, 1)
    assert.equal(await hash(), seen[0])
    const changes = [
      () => writeFileSync(join(folder, 'd/a'), '2'),
      () => chmodSync(join(folder, 'd/a'), 0o600),
      () => writeFileSync(join(folder, 'd/b'), ''),
      () => {
        rmSync(join(folder, 'd/l'))
        symlinkSync('b', join(folder, 'd/l'))
      },
    ]
    for (const change of changes) {
      change()
      seen.push(await hash())
    }
    assert.equal(new Set(seen).size, 5)
    assert.match(seen[0]!, /^[0-9a-f]{64}$/)
  })
})

describe('the archive', () => {
  it('contains the files unchanged, and leaves nothing behind', async () => {
    const long = `${'long/'.repeat(60)}name with spaces\nand more`
    const folder = folderOf({ ...files, [long]: 'deep', empty: '' })
    const context = await BuildContext.open(folder)
    const { body, size } = await context.pack(await context.select('.'))
    const bytes = await buffer(body)
    assert.equal(bytes.length, size)
    const target = folderOf({})
    execFileSync('tar', ['-xzf', '-', '-C', target], { input: bytes })
    const shown = (at: string) =>
      execFileSync('find', ['.', '-mindepth', '1', '-printf', '%p %y %m %s %l\\n'], { cwd: at })
        .toString()
        .split('\n')
        .filter((line) => !/ d /.test(line))
        .sort()
    assert.deepEqual(shown(target), shown(folder))
    assert.deepEqual(
      readdirSync(tmpdir()).filter((name) => /^warren-context-[0-9a-f]{16}$/.test(name)),
      [],
    )
  })

  it('is rejected with the reason if it cannot be made', async () => {
    const folder = folderOf({ a: '1' })
    const context = await BuildContext.open(folder)
    const entries = await context.select('a')
    rmSync(join(folder, 'a'))
    await assert.rejects(context.pack(entries), /could not be packed: .*a: /)
  })
})
