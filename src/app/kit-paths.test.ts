import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { foreignPathsIn, replaceForeignPaths } from './kit-paths.ts'

const replaced = (text: string): string => {
  const program = Buffer.from(`\0${text}\0`, 'latin1')
  replaceForeignPaths(program, '/.warren')
  assert.deepEqual(foreignPathsIn(program, '/.warren'), [])
  assert.equal(program.length, text.length + 2)
  return program.subarray(1, -1).toString('latin1')
}

suite('the paths in a program of the kit', () => {
  test('lead into the kit at the same length, where they named a file or folder of the image', () => {
    assert.equal(replaced('/etc/ld.so.preload'), '/.warren/xxxxxxxxx')
    assert.equal(replaced('/etc/hosts'), '/.warren/x')
    assert.equal(replaced('/etc/ttys'), '/.warren/')
    assert.equal(replaced('/etc/ssl'), '/.warren')
    assert.equal(replaced('/usr/lib/x86_64-linux-gnu/'), '/.warren/xxxxxxxxxxxxxxxx/')
    assert.equal(replaced('/usr/share/zoneinfo/'), '/.warren/xxxxxxxxxx/')
    assert.equal(replaced('/var/run/nscd/socket'), '/.warren/xxxxxxxxxxx')
    assert.equal(replaced('/home/a/lib/ossl-modules'), '/.warren/xxxxxxxxxxxxxxx')
  })

  test('name the folder of all files where there is no space for a path of the kit', () => {
    assert.equal(replaced('/lib/'), '/\0\0\0\0')
    assert.equal(replaced('/lib64/'), '/\0\0\0\0\0\0')
  })

  test('stay as they are where they are a part of a text, or name what every sandbox has', () => {
    const kept = ['see /etc/hosts', '/etc/hosts and more', '/bin/sh', '/proc/self/exe', '/dev/null', '/tmp']
    for (const text of [...kept, '/lib64/ld-linux-x86-64.so.2', '/usr/bin:/bin']) {
      assert.equal(replaced(text), text)
    }
  })

  test('are found however many follow each other', () => {
    const program = Buffer.from('\0/lib/\0/usr/lib/\0/etc/passwd\0/etc/passwd\0')
    assert.equal(foreignPathsIn(program, '/.warren').length, 4)
    replaceForeignPaths(program, '/.warren')
    assert.deepEqual(foreignPathsIn(program, '/.warren'), [])
  })
})
