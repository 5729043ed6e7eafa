import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ifPresent } from './if-present.ts'

test('only an error that means "not found" counts as absent', async () => {
  assert.equal(await ifPresent(readFile(join(tmpdir(), 'warren-no-such-file'))), undefined)
  await assert.rejects(ifPresent(readFile(tmpdir())), { code: 'EISDIR' })
  await assert.rejects(ifPresent(readFile('/proc/version/below')), { code: 'ENOTDIR' })
})

test('an existing value is returned', async () => {
  assert.ok(await ifPresent(readFile('/proc/version', 'utf8')))
})
