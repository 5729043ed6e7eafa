import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { fuzz } from '../../test/support/fuzz.ts'
import { resolvePath } from './paths.ts'

const user = { name: 'user', uid: 1000, gid: 1000, home: '/home/user', groups: [] }

suite('a path', () => {
  test('starts at the home, with or without a tilde, or is absolute', () => {
    const cases: [string, string][] = [
      ['file', '/home/user/file'],
      ['./a/../b', '/home/user/b'],
      ['~', '/home/user'],
      ['~/x', '/home/user/x'],
      ['~x', '/home/user/~x'],
      ['/a//b/', '/a/b'],
      ['/../../etc', '/etc'],
      ['../../../etc', '/etc'],
      ['~/../../..', '/'],
      ['', '/home/user'],
    ]
    for (const [given, wanted] of cases) assert.equal(resolvePath(given, user, ''), wanted, given)
    assert.equal(resolvePath('', user, '/code'), '/code')
    assert.equal(resolvePath('x', user, '/code'), '/home/user/x')
  })

  test('is always absolute and free of dots, whatever is given', async () => {
    const pieces = ['..', '.', '~', '/', '//', 'a', 'ü', ' ', '\n', '%2e%2e', '\\', '\ud800', '-', '*', '\0']
    await fuzz(3, (random) => {
      const given = Array.from({ length: random.below(12) }, () => random.pick(pieces)).join(
        random.chance(0.5) ? '/' : '',
      )
      const home = random.pick(['/home/user', '/', '', 'relative', '/a/../b'])
      const workdir = random.pick(['', '/code', 'x'])
      if (given.includes('\0')) {
        assert.throws(() => resolvePath(given, { ...user, home }, workdir), { code: 'invalid_argument' })
        return
      }
      const path = resolvePath(given, { ...user, home }, workdir)
      assert.equal(path[0], '/', JSON.stringify(given))
      const parts = path.split('/').slice(1)
      assert.ok(!parts.includes('..') && !parts.includes('.'), JSON.stringify(given))
      assert.ok(path === '/' || parts.every((part) => part !== ''), JSON.stringify([given, path]))
    })
  })
})
