/** What a stranger meets in the first minutes: each failure of a start names its cause and what cures it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { anyIsolation, noWarmPool, repoFolder, startWarren } from '../support/warren.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-first-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const warren = join(repoFolder, 'bin/warren')

function start(words: readonly string[], settings: Record<string, string>) {
  const [program, ...args] = [...words, warren, 'start']
  const env = { PATH: process.env.PATH, ...settings }
  return spawnSync(program!, args, { env, encoding: 'utf8', timeout: 60_000 })
}

test('a second start says where the first one serves', async () => {
  const first = await startWarren(anyIsolation, { name: 'first-minutes', settings: noWarmPool })
  try {
    const { status, stderr } = start([], { WARREN_DATA_DIR: first.dataFolder, WARREN_PORT: '1' })
    assert.ok(
      stderr.includes(`Warren serves already: ${first.url}, dashboard at ${first.url}/dashboard.`),
      stderr,
    )
    assert.match(stderr, /warren env` prints the key/)
    assert.equal(status, 1)
  } finally {
    await first.stop()
  }
})

test('without root a start says so before it installs anything', () => {
  const { status, stderr } = start(['setpriv', '--reuid=65534', '--clear-groups'], {})
  assert.match(stderr, /^Warren must run as root: .*Run: sudo npm start\n$/)
  assert.equal(status, 78)
  const help = spawnSync('setpriv', ['--reuid=65534', '--clear-groups', warren, 'start', '--help'], {
    encoding: 'utf8',
  })
  assert.match(help.stdout, /^Usage:\n {2}warren start\n/)
})

test('a disk that is too small for a first start is named, with the setting for another', () => {
  const small = `mount -t tmpfs -o size=64m tmpfs ${folder} && exec "$@"`
  const { status, stderr } = start(['unshare', '--mount', 'sh', '-c', small, 'sh'], {
    WARREN_DATA_DIR: join(folder, 'data'),
    WARREN_CACHE_DIR: join(folder, 'cache'),
    WARREN_PORT: '22999',
  })
  assert.match(stderr, /has \d+ MB left, and a first start needs 4096 MB .* by WARREN_DATA_DIR/)
  assert.equal(status, 78)
})

test('npm that is missing, or fails on an old Node or behind a proxy, is named with what cures it', () => {
  const clone = join(folder, 'clone')
  mkdirSync(join(clone, 'bin'), { recursive: true })
  cpSync(join(repoFolder, 'bin/install-packages'), join(clone, 'bin/install-packages'))
  writeFileSync(join(clone, 'package-lock.json'), '{}')
  const programs = join(folder, 'programs')
  mkdirSync(programs)
  const add = (name: string, script: string) => {
    writeFileSync(join(programs, name), `#!/bin/sh\n${script}\n`)
    chmodSync(join(programs, name), 0o755)
  }
  const install = (path: string, more: Record<string, string> = {}) =>
    spawnSync('/bin/sh', [join(clone, 'bin/install-packages')], {
      env: { PATH: path, ...more },
      encoding: 'utf8',
    }).stderr
  // A machine without npm, which has the programs of any Debian.
  for (const name of ['dirname', 'readlink', 'find', 'awk', 'df']) add(name, `exec /usr/bin/${name} "$@"`)
  assert.match(install(programs), /needs npm .* install Node 20 or newer .*or use a release of Warren/s)
  add('npm', 'exit 1')
  add('node', 'echo v18.20.4')
  assert.match(install(programs), /It runs on Node v18\.20\.4: install Node 20 or newer/)
  add('node', 'echo v22.1.0')
  assert.match(install(programs), /by the proxy that.*\(now: none\)/s)
  assert.match(install(programs, { HTTPS_PROXY: 'http://me:secret@p:1' }), /\(now: http:\/\/p:1\)/)
})
