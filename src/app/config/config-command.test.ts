import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { configCommand } from './config-command.ts'

test('docs/settings.md is generated from the schema', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/settings.md'), 'utf8')
  assert.equal(
    page,
    `${configCommand(['--markdown'])}\n`,
    'run: bin/warren config --markdown > docs/settings.md',
  )
})

test('an unknown option is rejected with a hint to the help', () => {
  assert.throws(() => configCommand(['--yaml']), /Unknown argument '--yaml'\. Run `warren config --help`\./)
})
