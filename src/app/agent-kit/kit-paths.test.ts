import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { foreignPathsIn, replaceForeignPaths } from './kit-paths.ts'

const replaced = (text: string): string => {
  const program = Buffer.from(`\0${text}\0`, 'latin1')
  replaceForeignPaths(program)
  assert.deepEqual(foreignPathsIn(program), [])
  assert.equal(program.length, text.length + 2)
  return program.subarray(1, -1).toString('latin1')
}

suite('the paths in a program of the kit', () => {
  test('lead to /sys at the same length, if they named a file or folder of the image', () => {
    assert.equal(replaced('/etc/ld.so.preload'), '/sys/ld.so.preload')
    assert.equal(replaced('/etc/ssl'), '/sys/ssl')
    assert.equal(replaced('/usr/lib/x86_64-linux-gnu/'), '/sys/lib/x86_64-linux-gnu/')
    assert.equal(replaced('/usr/share/zoneinfo/'), '/sys/share/zoneinfo/')
    assert.equal(replaced('/var/run/nscd/socket'), '/sys/run/nscd/socket')
    assert.equal(replaced('/home/a/lib/ossl-modules'), '/sys//a/lib/ossl-modules')
    assert.equal(replaced('/lib/'), '/sys/')
    assert.equal(replaced('/lib64/'), '/sys///')
    assert.equal(replaced('/lib/x86_64-linux-gnu/'), '/sys/x86_64-linux-gnu/')
  })

  test('stay unchanged if they are part of a text, or name something that every sandbox has', () => {
    const unchanged = [
      'see /etc/hosts',
      '/etc/hosts and more',
      '/bin/sh',
      '/proc/self/exe',
      '/dev/null',
      '/tmp',
    ]
    for (const text of [...unchanged, '/lib64/ld-linux-x86-64.so.2', '/usr/bin:/bin']) {
      assert.equal(replaced(text), text)
    }
  })

  test('are found however many follow each other', () => {
    const program = Buffer.from('\0/lib/\0/usr/lib/\0/etc/passwd\0/etc/passwd\0')
    assert.equal(foreignPathsIn(program).length, 4)
    replaceForeignPaths(program)
    assert.deepEqual(foreignPathsIn(program), [])
  })
})
