import assert from 'node:assert/strict'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { completeRoot, insideRoot } from './complete-root.ts'

function rootWith(t: TestContext, files: Record<string, string>): string {
  const outside = mkdtempSync(join(tmpdir(), 'warren-root-'))
  t.after(() => rmSync(outside, { recursive: true, force: true }))
  const root = join(outside, 'root')
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  return root
}

const read = (root: string, path: string) => readFileSync(join(root, path), 'utf8')

test('a root without the user gets it, with the next free id, a home and a row in every table', async (t) => {
  const root = rootWith(t, {
    'etc/passwd': 'root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh',
    'etc/group': 'root:x:0:\nalice:x:1000:\nguests:x:1001:\n',
    'etc/shadow': 'root:*:19000::::::\n',
    'etc/sudoers.d/README': '',
    'bin/sh': '',
  })
  await completeRoot(root)
  assert.equal(read(root, 'etc/passwd').split('\n')[2], 'user:x:1001:1002::/home/user:/bin/bash')
  assert.equal(read(root, 'etc/group').split('\n')[3], 'user:x:1002:')
  assert.match(read(root, 'etc/shadow'), /^user:\*:/m)
  assert.match(read(root, 'etc/sudoers.d/user'), /NOPASSWD/)
  const home = statSync(join(root, 'home/user'))
  assert.deepEqual([home.uid, home.gid, home.mode & 0o777], [1001, 1002, 0o755])
})

test("a home that belongs to root becomes the new user's, without what lies in it", async (t) => {
  const root = rootWith(t, { 'bin/sh': '', 'home/user/app/start.sh': '' })
  await completeRoot(root)
  assert.equal(statSync(join(root, 'home/user')).uid, 1000)
  assert.equal(statSync(join(root, 'home/user/app')).uid, 0)
})

test('a home that is a link is left alone', async (t) => {
  const root = rootWith(t, { 'bin/sh': '', 'root/.profile': '', 'home/other': '' })
  symlinkSync('/root', join(root, 'home/user'))
  await completeRoot(root)
  assert.equal(statSync(join(root, 'root')).uid, 0)
})

test('a home that belongs to somebody else stays theirs', async (t) => {
  const root = rootWith(t, { 'bin/sh': '', 'home/user/notes': '' })
  chownSync(join(root, 'home/user'), 42, 42)
  await completeRoot(root)
  assert.equal(statSync(join(root, 'home/user')).uid, 42)
})

test('a root that has the user and bash is left alone', async (t) => {
  const passwd = 'root:x:0:0::/root:/bin/sh\nuser:x:500:500::/srv:/bin/sh\n'
  const root = rootWith(t, { 'etc/passwd': passwd, 'bin/bash': 'real', 'bin/sh': '' })
  await completeRoot(root)
  assert.equal(read(root, 'etc/passwd'), passwd)
  assert.equal(read(root, 'bin/bash'), 'real')
  assert.equal(existsSync(join(root, 'home')), false)
})

test('a root without any users gets root as well', async (t) => {
  const root = rootWith(t, { 'bin/sh': '' })
  await completeRoot(root)
  assert.match(read(root, 'etc/passwd'), /^root:x:0:0:.*\nuser:x:1000:1000:.*\n$/)
  assert.equal(read(root, 'etc/group'), 'root:x:0:\nuser:x:1000:\n')
})

test('in a root with a shell but no bash, /bin/bash leads to the shell', async (t) => {
  const root = rootWith(t, { 'usr/bin/sh': '' })
  symlinkSync('usr/bin', join(root, 'bin'))
  await completeRoot(root)
  assert.match(read(root, 'usr/bin/bash'), /^#!\/bin\/sh\n/)
  assert.equal(statSync(join(root, 'usr/bin/bash')).mode & 0o777, 0o755)
})

test('an unreadable file does not count as missing, and is not replaced', async (t) => {
  const root = rootWith(t, { 'etc/passwd/in-the-way': '', 'bin/sh': '' })
  await assert.rejects(completeRoot(root), { code: 'EISDIR' })
  assert.equal(existsSync(join(root, 'etc/passwd/in-the-way')), true)
  assert.equal(existsSync(join(root, 'etc/group')), false)
})

test('links of a root never lead out of it', async (t) => {
  const root = rootWith(t, { 'a/file': '' })
  symlinkSync('/a', join(root, 'absolute'))
  symlinkSync('../../../a', join(root, 'a/above'))
  symlinkSync('loop', join(root, 'loop'))
  assert.equal(await insideRoot(root, '/absolute/file'), join(root, 'a/file'))
  assert.equal(await insideRoot(root, '/a/above/file'), join(root, 'a/file'))
  assert.equal(await insideRoot(root, '/../../etc'), join(root, 'etc'))
  await assert.rejects(insideRoot(root, '/loop'), /link to itself/)
})
