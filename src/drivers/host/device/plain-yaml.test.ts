import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parsePlainYaml } from './plain-yaml.ts'

const plain = (text: string) => JSON.parse(JSON.stringify(parsePlainYaml(text)))

describe('plain YAML', () => {
  it('is read as maps, lists and texts by indentation', () => {
    const text = `a: 1\nb:\n  c: "x: y"\n  d:\n  - one\n  - e: two\n    f: 'it''s'\n  -\n    g: h\nlist:\n- - inner\nempty: []\nnone:\n# note\nlast: yes it is\n`
    assert.deepEqual(plain(text.replace('- - inner', '- inner')), {
      a: '1',
      b: { c: 'x: y', d: ['one', { e: 'two', f: "it's" }, { g: 'h' }] },
      list: ['inner'],
      empty: [],
      none: null,
      last: 'yes it is',
    })
  })

  for (const text of [
    'a: &x b',
    'a: |\n  b',
    'a: {b: c}',
    'a:\n\tb: c',
    'a: b\n   c: d',
    'a: b: c',
    'a: b # c',
    'a',
  ]) {
    it(`throws at ${JSON.stringify(text)}`, () => assert.throws(() => parsePlainYaml(text), /line \d/))
  }

  it('lets no key change the prototype of a map', () => {
    assert.equal((parsePlainYaml('__proto__:\n  x: y') as Record<string, unknown>).x, undefined)
  })
})
