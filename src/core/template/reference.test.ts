import assert from 'node:assert/strict'
import { it } from 'node:test'
import { parseTemplateReference } from './reference.ts'

it('names are read with and without namespace and tag, trimmed and in lower case', () => {
  const cases: [string, string | null, string, string][] = [
    ['base', null, 'base', 'default'],
    ['  Base ', null, 'base', 'default'],
    ['base:v1.2', null, 'base', 'v1.2'],
    ['team/base', 'team', 'base', 'default'],
    ['team/base:default', 'team', 'base', 'default'],
  ]
  for (const [text, namespace, alias, tag] of cases) {
    assert.deepEqual(parseTemplateReference(text), { namespace, alias, tag })
  }
})

it('all other names are rejected', () => {
  for (const text of ['', ':x', 'name:', 'a/b/c', '/a', 'a/', '../x', 'a b', 'a:b:c', 'ä', 'x'.repeat(500)]) {
    assert.throws(() => parseTemplateReference(text), /Invalid template reference/, text)
  }
})
