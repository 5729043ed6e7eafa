import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { complaints, hostMirrors, withoutPasswords } from './apt.ts'

/** A folder like /etc/apt with the given files. */
function aptFolder(t: TestContext, files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'warren-apt-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'sources.list.d'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}

const mirrors = { main: 'http://mirror.example/debian', security: 'http://mirror.example/debian-security' }

test('the mirrors of a machine with the newer kind of source file are found', (t) => {
  const text = `Types: deb
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
`
  assert.deepEqual(hostMirrors(aptFolder(t, { 'sources.list.d/debian.sources': text })), mirrors)
})

test('the mirrors of a machine with the older kind of source file are found', (t) => {
  const text = `# deb http://commented.example/debian bookworm main
deb [signed-by=/x.gpg] http://mirror.example/debian bookworm main
deb http://mirror.example/debian-security bookworm-security main
`
  assert.deepEqual(hostMirrors(aptFolder(t, { 'sources.list': text })), mirrors)
})

test('a cloud image that names a file of mirrors is followed', (t) => {
  const folder = aptFolder(t, {
    'mirrors.list': 'http://mirror.example/debian\nhttp://second.example/debian\n',
  })
  const text = `Types: deb deb-src\nURIs: mirror+file://${folder}/mirrors.list\nSuites: bookworm\nComponents: main\n`
  writeFileSync(join(folder, 'sources.list.d/debian.sources'), text)
  assert.deepEqual(hostMirrors(folder), mirrors)
})

test('disabled, foreign and unreadable sources are skipped', (t) => {
  const files = {
    'sources.list': 'deb cdrom:[Debian]/ bookworm main\ndeb http://archive.example/ubuntu noble main\n',
    'sources.list.d/off.sources': 'Types: deb\nURIs: http://off.example/debian\nSuites: x\nEnabled: no\n',
    'sources.list.d/old.sources.save': 'Types: deb\nURIs: http://saved.example/debian\nSuites: x\n',
  }
  assert.equal(hostMirrors(aptFolder(t, files)), undefined)
})

test('a password of the mirror is not written into the root', () => {
  assert.equal(withoutPasswords('https://me:secret@mirror.example/debian'), 'https://mirror.example/debian')
})

test('of a long output only the error lines are shown', () => {
  assert.equal(
    complaints('Reading lists\nE: Unable to locate package x\nmore\n'),
    'E: Unable to locate package x',
  )
  assert.equal(complaints('something odd'), 'something odd')
})
