import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { addressOf } from './lookup.ts'

test('addresses come from the name itself, from hosts, and otherwise from the name server', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-lookup-'))
  writeFileSync(
    join(folder, 'hosts'),
    '# 10.0.0.9 db\n10.0.0.7\tDB db.internal # main\nnot-an-address other\n',
  )
  writeFileSync(join(folder, 'resolv.conf'), 'nameserver nowhere\n')
  const found = (host: string) => addressOf(host, folder)
  assert.deepEqual(await Promise.all(['localhost', '::1', '10.1.2.3', 'db', 'DB.internal'].map(found)), [
    ...['127.0.0.1', '::1', '10.1.2.3', '10.0.0.7', '10.0.0.7'],
  ])
  rmSync(folder, { recursive: true })
})
