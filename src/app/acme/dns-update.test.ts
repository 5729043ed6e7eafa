import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { test } from 'node:test'

const program = resolve(import.meta.dirname, '../../../bin/dns-update')

test('bin/dns-update sends one record of the zone to its server, and says when nsupdate fails', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-dns-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const fake = join(folder, 'nsupdate')
  writeFileSync(fake, `#!/bin/sh\n{ echo "$@"; cat; } > ${folder}/sent\n[ ! -e ${folder}/fails ]\n`)
  chmodSync(fake, 0o755)
  const env = { PATH: `${folder}:${process.env.PATH}` }
  const run = (...args: string[]) =>
    spawnSync(program, ['192.0.2.53', '/key', '0', ...args], { env, encoding: 'utf8' })
  const sent = () => readFileSync(join(folder, 'sent'), 'utf8')
  assert.equal(run('add', '_acme-challenge.box.example', 'a-_B').status, 0)
  const head = '-t 30 -k /key\nserver 192.0.2.53\n'
  assert.equal(sent(), `${head}update add _acme-challenge.box.example. 60 TXT "a-_B"\nsend\n`)
  assert.equal(run('remove', '_acme-challenge.box.example', 'a-_B').status, 0)
  assert.equal(sent(), `${head}update delete _acme-challenge.box.example. TXT "a-_B"\nsend\n`)
  assert.deepEqual([run('set', 'a', 'b').status, run('add', 'a').status], [2, 2])
  writeFileSync(join(folder, 'fails'), '')
  assert.notEqual(run('add', 'a', 'b').status, 0)
})
