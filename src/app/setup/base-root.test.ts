import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { aptSources, recipeHash } from './base-recipe.ts'
import { makeBaseRoot, parseBaseSource } from './base-root.ts'
import { packFolder, unpackFolder } from './packed-folder.ts'
import { createProgress } from './progress.ts'

const quiet = createProgress({ write: () => {} })
const source = 'debootstrap:bookworm'
const debian = { release: 'bookworm', nodeVersion: process.version, architecture: process.arch }

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'warren-root-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

test('a container image is rejected with the supported sources', () => {
  assert.throws(
    () => parseBaseSource('ghcr.io/some/image:1'),
    /come with a later version.*debootstrap:bookworm/,
  )
})

test('the name of a root changes with its release, its Node and its processor', () => {
  assert.deepEqual(parseBaseSource(source), { recipe: debian })
  const others = [{ release: 'trixie' }, { nodeVersion: 'v1.0.0' }, { architecture: 'other' }]
  const hashes = [debian, ...others.map((other) => ({ ...debian, ...other }))].map(recipeHash)
  assert.equal(new Set(hashes).size, hashes.length)
})

test('the sources inside a root name its release', () => {
  const text = aptSources('trixie', {
    main: 'http://m.example/debian',
    security: 'http://m.example/debian-security',
  })
  assert.match(text, /URIs: http:\/\/m\.example\/debian\nSuites: trixie trixie-updates\n/)
  assert.match(text, /URIs: http:\/\/m\.example\/debian-security\nSuites: trixie-security\n/)
})

test('a folder is the same after packing and unpacking', async (t) => {
  const folder = folderFor(t)
  const from = join(folder, 'from')
  mkdirSync(join(from, 'sub'), { recursive: true })
  writeFileSync(join(from, 'sub/program'), 'x', { mode: 0o755 })
  execFileSync('chmod', ['4711', join(from, 'sub/program')])
  execFileSync('ln', [join(from, 'sub/program'), join(from, 'same')])
  execFileSync('ln', ['-s', 'sub', join(from, 'link')])
  const shares: number[] = []
  await packFolder(from, join(folder, 'cache/packed.tar'), () => {})
  mkdirSync(join(folder, 'to'))
  await unpackFolder(join(folder, 'cache/packed.tar'), join(folder, 'to'), (share) => shares.push(share))
  const [program, same] = ['to/sub/program', 'to/same'].map((path) => statSync(join(folder, path)))
  assert.equal(program!.mode & 0o7777, 0o4711)
  assert.equal(program!.ino, same!.ino)
  assert.equal(readFileSync(join(folder, 'to/link/program'), 'utf8'), 'x')
  assert.equal(shares.at(-1), 1)
})

test('a packed root in the cache is unpacked once, and the remains of an interrupted try are removed', async (t) => {
  const folder = folderFor(t)
  const [cache, parent] = [join(folder, 'cache'), join(folder, 'templates')]
  mkdirSync(join(folder, 'root'))
  writeFileSync(join(folder, 'root/file'), 'from the cache')
  await packFolder(join(folder, 'root'), join(cache, `base-${recipeHash(debian)}.tar`), () => {})
  mkdirSync(join(parent, 'partial-old'), { recursive: true })
  const made = await makeBaseRoot(parent, source, cache, quiet)
  assert.equal(readFileSync(join(made.folder, 'file'), 'utf8'), 'from the cache')
  assert.equal(existsSync(join(parent, 'partial-old')), false)
  writeFileSync(join(made.folder, 'file'), 'changed')
  await makeBaseRoot(parent, source, cache, quiet)
  assert.equal(readFileSync(join(made.folder, 'file'), 'utf8'), 'changed')
})

test('a damaged copy in the cache leaves no root behind', async (t) => {
  const folder = folderFor(t)
  const [cache, parent] = [join(folder, 'cache'), join(folder, 'templates')]
  mkdirSync(cache)
  writeFileSync(join(cache, `base-${recipeHash(debian)}.tar`), 'this is no tar file')
  await assert.rejects(makeBaseRoot(parent, source, cache, quiet), /Could not unpack .*base-/)
  assert.deepEqual(execFileSync('ls', ['-A', parent]).toString(), '')
})

test('a folder becomes a root of its own that any client can use, and the folder stays unchanged', async (t) => {
  const folder = folderFor(t)
  const [image, parent] = [join(folder, 'my image'), join(folder, 'templates')]
  mkdirSync(join(image, 'bin'), { recursive: true })
  writeFileSync(join(image, 'bin/sh'), 'x', { mode: 0o755 })
  const make = () => makeBaseRoot(parent, `folder:${image}`, folder, quiet)
  const made = await make()
  assert.match(readFileSync(join(made.folder, 'etc/passwd'), 'utf8'), /^user:x:1000:1000:/m)
  assert.deepEqual(execFileSync('find', ['.'], { cwd: image }).toString().split('\n').sort(), [
    '',
    '.',
    './bin',
    './bin/sh',
  ])
  assert.deepEqual(await make(), made)
  writeFileSync(join(image, 'bin/other'), '')
  const changed = await make()
  assert.notEqual(changed.folder, made.folder)
  assert.ok(existsSync(join(changed.folder, 'bin/other')))
})

test('a missing folder stops the start, and the error names it', async (t) => {
  const folder = folderFor(t)
  await assert.rejects(
    makeBaseRoot(join(folder, 'templates'), `folder:${folder}/absent`, folder, quiet),
    /absent, which is no folder/,
  )
})
