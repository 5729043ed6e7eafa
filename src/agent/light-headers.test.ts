import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LightHeaders } from './light-headers.ts'

/** Does the same to both and compares what can be seen. */
function compare(
  act: (headers: Headers) => unknown,
  init?: Record<string, string> | [string, string][],
): void {
  const real = new Headers(init)
  const light = new LightHeaders(init) as unknown as Headers
  assert.deepEqual(act(light), act(real))
  assert.deepEqual([...light], [...real])
}

test('does what the real ones do', () => {
  compare((headers) => headers.get('content-type'), { 'Content-Type': 'a' })
  compare(
    (headers) => [headers.get('none'), headers.has('A'), headers.has('none')],
    [
      ['a', '1'],
      ['A', '2'],
    ],
  )
  compare((headers) => headers.set('X', ' spaced '))
  compare((headers) => headers.append('b', '2'), { B: '1', a: '0' })
  compare((headers) => headers.delete('A'), { a: '1', c: '2' })
  compare(
    (headers) => {
      const seen: string[] = []
      headers.forEach((value, name) => void seen.push(`${name}=${value}`))
      return seen
    },
    { z: '1', a: '2', M: '3' },
  )
})

test('is made from another of its kind', () => {
  assert.deepEqual([...new LightHeaders(new LightHeaders({ A: '1' }))], [['a', '1']])
})
